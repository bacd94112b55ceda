"""Study steps by name: what can follow a training. "test.mlp" is the step `test` with the calibration mlp."""

from __future__ import annotations

from dataclasses import dataclass

from selfnorm._util.errors import UserError
from selfnorm.registry import Registry, load_plugins
from selfnorm.registry.calibrations import CALIBRATIONS

COMPLETION = "Sentence completion"  # the kind_of_result of a completion's JSON
TIMES, COST = "times", "cost"  # the kind_of_result of the JSON of these steps


@dataclass(frozen=True)
class StepInfo:
    """`make` is called with the run, its corpus, the step's name and a calibration; it gives the JSON to store."""

    make: str
    calibrated: bool = False  # may be followed by a calibration: test.mlp
    check: str = ""  # called with the recipe before training: what is missing is said then, not hours later


_MEASURE = StepInfo("selfnorm.studies.steps:measured", calibrated=True)

STEPS: Registry[StepInfo] = Registry("step", {
    "train": _MEASURE,
    "valid": _MEASURE,
    "test": _MEASURE,
    "complete": StepInfo("selfnorm.tasks.challenge:completed", calibrated=True, check="selfnorm.tasks.challenge:check"),
    TIMES: StepInfo("selfnorm.studies.costs:time_scoring"),
    COST: StepInfo("selfnorm.studies.costs:time_training"),
})  # fmt: skip


def check_step(step: str) -> tuple[str, str]:
    """A step taken apart: test.mlp is ("test", "mlp"). Anything else than a known step is refused."""
    load_plugins()
    what, dot, kind = step.partition(".")
    known = what in STEPS and (not dot or (STEPS[what].calibrated and kind in CALIBRATIONS))
    if not known:
        raise UserError(
            f"step {step!r}: expected one of {', '.join(STEPS)}, and after a measuring one perhaps a calibration, such as test.mlp."
        )
    return what, kind

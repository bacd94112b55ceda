"""The steps after a training: measure, calibrate and measure, complete sentences, time. Finished steps are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from selfnorm._util.change import checked_if_listed
from selfnorm._util.files import read_json
from selfnorm.config.signature import parse_signature
from selfnorm.data.corpus import Corpus
from selfnorm.registry import load
from selfnorm.registry.steps import STEPS
from selfnorm.runs.calibrate import calibrate_run
from selfnorm.runs.calibrations import has_calibration, signed
from selfnorm.runs.evaluate import measure_split
from selfnorm.runs.folder import Run, changing


def follow(run: Run, corpus: Corpus, steps: Sequence[str]) -> None:
    """Make each step that has not been made: "test" measures the raw model, "test.mlp" calibrates with mlp first."""
    for step in steps:
        what, _, kind = step.partition(".")
        if _is_done(run, f"{step}.json"):
            continue
        if not has_calibration(run, kind or "none"):
            calibrate_run(run, corpus, kind, use=False)
        table = load(STEPS.find(what).make)(run, corpus, what, kind or "none")
        if table is not None:
            with changing(run) as new:
                new.json(f"{step}.json", table)


def measured(run: Run, corpus: Corpus, split: str, kind: str) -> dict[str, Any] | None:
    """The steps train, valid and test. Measuring stores its own result."""
    measure_split(run, corpus, split, kind, must_store=True)
    return None


def _is_done(run: Run, name: str) -> bool:
    """Is there such a result, of the run as long as it is now? A run that was made longer is measured again."""
    if not run.file(name).exists():
        return False
    now = parse_signature(signed(run, "", "none"))
    stored = read_json(checked_if_listed(run.file(name)))
    complete = isinstance(stored, dict) and bool({"mu_z", "kind_of_result"} & set(stored))
    return complete and parse_signature(str(stored.get("signature", ""))).get("epochs") == now["epochs"]

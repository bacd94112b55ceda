"""Calibrations in the run folder: stored next to each other, one of them in use, and put back onto a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from selfnorm._util.devices import device_of
from selfnorm._util.errors import UserError
from selfnorm._util.tensors import bytes_of, read_tensors, write_tensors
from selfnorm.calibration.base import Calibration
from selfnorm.config.signature import signature
from selfnorm.nn.model import LanguageModel
from selfnorm.nn.normalizers import Normalizer
from selfnorm.registry import load
from selfnorm.registry.calibrations import CALIBRATIONS
from selfnorm.registry.steps import STEPS
from selfnorm.runs.folder import FACTS, Run, Stamp, changing, read_calibrations, refuse_replaced
from selfnorm.runs.history import trained_epochs

OF = {"of": "rows"}  # what was fitted to: log Z of the rows alone, whatever normalizer the model was trained with


def calibration_of(kind: str) -> Calibration:
    """The class of a kind, made."""
    made: Calibration = load(CALIBRATIONS.find(kind).make)()
    return made


def save_calibration(
    run: Run, kind: str, normalizer: Normalizer, facts: dict[str, Any], weights: Stamp, use: bool = True
) -> None:
    """Store a calibration of the weights that were there at `weights` and, if wanted, put it in use.

    One change: tensors, facts and the removal of measurements of the one it replaces. Others stay.
    """
    tensors = {name: t.cpu().contiguous() for name, t in normalizer.state_dict().items()}
    with changing(run) as new:
        refuse_replaced(run, weights)
        new.remove(f"{what}.{kind}.json" for what, step in STEPS.items() if step.calibrated)
        with new.file(f"calibration.{kind}.safetensors", bytes_of(tensors)) as temporary:
            write_tensors(temporary, tensors, OF)
        stored = stored_facts(run)
        new.json(FACTS, {**stored, "kind": kind if use else stored.get("kind", "none"), kind: facts})


def use_calibration(run: Run, kind: str) -> None:
    """Put a stored calibration (or none) in use."""
    with changing(run) as new:
        new.json(FACTS, {**stored_facts(run), "kind": kind})


def stored_facts(run: Run) -> dict[str, Any]:
    """What calibration.json says; nothing if there is none."""
    path = run.checked(FACTS)
    return read_calibrations(path) if path.exists() else {}


def remaining_sigma(run: Run, kind: str) -> float | None:
    """sigma_z on the validation text after a calibration, if that is known."""
    facts = stored_facts(run).get(kind)
    try:
        return None if facts is None else float(facts["valid_after"]["sigma_z"])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{run.file('calibration.json')} does not say what {kind} left. Calibrate again.") from None


def fitted(run: Run, kind: str) -> str:
    """How a stored calibration was fitted, for signatures: 128x128,256 frequent,929588 contexts,4 passes."""
    facts = stored_facts(run).get(kind)
    if kind not in CALIBRATIONS or not isinstance(facts, dict):
        return ""
    used = {name: facts[name] for name in calibration_of(kind).options if name in facts}
    parts: dict[str, Callable[[Any], str]] = {
        "hidden": lambda v: "x".join(str(size) for size in v),
        "frequent": "{} frequent".format,
        "contexts": "{} contexts".format,
        "passes": "{:g} passes".format,
        "rank": "rank {}".format,
        "top": "top {}".format,
        "preview": "{} preview".format,
    }
    shown = [say(used[name]) for name, say in parts.items() if name in used]
    return ",".join([*shown, *(f"{name}={v}" for name, v in used.items() if name not in (*parts, "minutes"))])


def signed(run: Run, split: str, kind: str) -> str:
    """The signature of what is measured with the run as it is now."""
    return signature(run.recipe, split, kind, trained_epochs(run.folder), fitted(run, kind))


def has_calibration(run: Run, kind: str) -> bool:
    return kind == "none" or run.file(f"calibration.{kind}.safetensors").exists()


def apply(model: LanguageModel, normalizer: Normalizer) -> LanguageModel:
    """The model with a normalizer: folded into the rows where that is possible, otherwise subtracted."""
    return model.with_output(normalizer.onto(model.output))


def calibrated(model: LanguageModel, run: Run, kind: str) -> LanguageModel:
    """The model with a stored calibration."""
    if not has_calibration(run, kind):
        raise UserError(
            f"{run.folder} has no {kind} calibration. Make it with: selfnorm calibrate {run.folder} --with {kind}"
        )
    tensors, about = read_tensors(run.checked(f"calibration.{kind}.safetensors"))
    if kind == "mlp" and model.output.normalizer is not None and about != OF:
        raise UserError(
            f"{run.folder} was calibrated by an older version, on top of its own normalizer. Calibrate again: "
            f"selfnorm calibrate {run.folder} --with mlp"
        )
    try:
        here = {name: t.to(device_of(model)) for name, t in tensors.items()}
        return apply(model, calibration_of(kind).load(here, model.output))
    except (KeyError, ValueError, RuntimeError):
        raise UserError(
            f"calibration.{kind}.safetensors of {run.folder} does not fit the model. Calibrate again."
        ) from None

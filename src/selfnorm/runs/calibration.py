"""Calibrations in the run folder: stored beside each other, one of them in use, and put back onto a model."""

from __future__ import annotations

from typing import Any

from safetensors.torch import save_file
from torch import nn

from selfnorm.errors import UserError
from selfnorm.files import atomic, read_json, write_json
from selfnorm.model import LanguageModel
from selfnorm.normalizers import Affine, Mlp
from selfnorm.results import signature
from selfnorm.runs.folder import Run, trained_epochs
from selfnorm.runs.weights import read_tensors

OF = {"of": "rows"}  # what mlp was fitted to: log Z of the rows alone, whatever normalizer the model has learned


def save_calibration(run: Run, kind: str, normalizer: nn.Module, facts: dict[str, Any], use: bool = True) -> None:
    """Store a calibration and, if wanted, make it the one in use; others stay beside it, measurements of the one it replaces go."""
    for what in ("valid", "test", "train", "complete"):
        run.file(f"{what}.{kind}.json").unlink(missing_ok=True)
    with atomic(run.file(f"calibration.{kind}.safetensors")) as temporary:
        save_file({name: t.contiguous() for name, t in normalizer.state_dict().items()}, temporary, metadata=OF)
    stored = _stored(run)
    write_json(
        run.file("calibration.json"), {**stored, "kind": kind if use else stored.get("kind", "none"), kind: facts}
    )


def use_calibration(run: Run, kind: str) -> None:
    """Make a stored calibration (or none) the one in use."""
    write_json(run.file("calibration.json"), {**_stored(run), "kind": kind})


def _stored(run: Run) -> dict[str, Any]:
    """What calibration.json says; nothing if it is not there or not ours, since it is about to be written anew."""
    path = run.file("calibration.json")
    try:
        table = read_json(path) if path.exists() else {}
    except UserError:
        return {}
    return table if isinstance(table, dict) else {}


def fitted(run: Run, kind: str) -> str:
    """How a stored calibration was fitted, for signatures: 128x128,256 frequent,929588 contexts,4 passes."""
    facts = _stored(run).get(kind)
    if kind not in ("affine", "mlp") or not isinstance(facts, dict) or "contexts" not in facts:
        return ""
    contexts = f"{facts['contexts']} contexts"
    if kind == "affine":
        return contexts
    hidden = "x".join(str(size) for size in facts.get("hidden", ()))
    return f"{hidden},{facts.get('frequent', 0)} frequent,{contexts},{facts.get('passes', 0):g} passes"


def signed(run: Run, split: str, kind: str) -> str:
    """The signature of what is found with the run as it is now."""
    return signature(run.recipe, split, kind, trained_epochs(run.folder), fitted(run, kind))


def has_calibration(run: Run, kind: str) -> bool:
    return kind == "none" or run.file(f"calibration.{kind}.safetensors").exists()


def apply(model: LanguageModel, normalizer: nn.Module) -> LanguageModel:
    """shift and affine are folded into the rows. mlp is subtracted, instead of a normalizer the model learned itself."""
    if isinstance(normalizer, Affine):
        return model.with_output(model.output.minus(normalizer.a, normalizer.b))
    return model.with_output(model.output.without_normalizer().with_normalizer(normalizer))


def calibrated(model: LanguageModel, run: Run, kind: str) -> LanguageModel:
    """The model with a stored calibration."""
    if not has_calibration(run, kind):
        raise UserError(
            f"{run.folder} has no {kind} calibration. Make it with: selfnorm calibrate {run.folder} --with {kind}"
        )
    tensors, about = read_tensors(run.file(f"calibration.{kind}.safetensors"))
    if kind == "mlp" and model.output.normalizer is not None and about != OF:
        raise UserError(
            f"{run.folder} was calibrated by an older version, on top of its own normalizer. Calibrate again: "
            f"selfnorm calibrate {run.folder} --with mlp"
        )
    try:
        if kind in ("shift", "affine"):
            affine = Affine(model.output.d)
            affine.load_state_dict(tensors)
            return apply(model, affine)
        biases = [name for name in tensors if name.startswith("network.") and name.endswith(".bias")]
        biases.sort(key=lambda name: int(name.split(".")[1]))
        hidden = [len(tensors[name]) for name in biases[:-1]]
        normalizer = Mlp(model.output.d, hidden, len(tensors.get("frequent.bias", ())))
        normalizer.load_state_dict(tensors)
        return apply(model, normalizer.requires_grad_(False))
    except (KeyError, ValueError, RuntimeError):
        raise UserError(
            f"calibration.{kind}.safetensors of {run.folder} does not fit the model. Calibrate again."
        ) from None

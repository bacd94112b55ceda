"""A run's model, ready for use: its weights and the calibration stored with them."""

from __future__ import annotations

import torch

from selfnorm.errors import UserError
from selfnorm.model import LanguageModel
from selfnorm.runs.calibration import calibrated
from selfnorm.runs.folder import Run
from selfnorm.runs.weights import fill, fresh_model, read_tensors


def load_model(run: Run, which: str = "best", calibration: str | None = None) -> LanguageModel:
    """The run's model, with the calibration stored in it unless another (or "none") is asked for."""
    path = run.file("best.safetensors" if which == "best" else "model.safetensors")
    if not path.exists():
        raise UserError(f"{run.folder} has no {path.name} yet. Finish at least one epoch with: selfnorm train")
    tensors, metadata = read_tensors(path)
    model = fresh_model(run.recipe, len(run.vocab))
    if not all(bool(torch.isfinite(t).all()) for t in tensors.values()):
        raise UserError(
            f"{path} holds weights that are not finite numbers: the file is damaged. Train or copy it again."
        )
    fill(model, tensors)
    if "link" in metadata:
        model.output.link = metadata["link"]  # a criterion may have added one
    model.requires_grad_(False)
    wanted = run.calibration if calibration is None else calibration
    return model if wanted == "none" else calibrated(model, run, wanted)

"""A run's model, ready for use: its weights and the calibration stored with them."""

from __future__ import annotations

import logging

import torch

from selfnorm._util.devices import available, choose, is_host
from selfnorm._util.errors import UserError
from selfnorm._util.tensors import read_tensors
from selfnorm.nn.model import LanguageModel
from selfnorm.runs.calibrations import calibrated
from selfnorm.runs.folder import Run
from selfnorm.runs.weights import fill, fresh_model

log = logging.getLogger("selfnorm")


def device_for(run: Run) -> torch.device:
    """The device asked for when the run was opened; else the one it was trained with, where that is here; else auto."""
    asked = run.device or run.recipe.training.device
    if not run.device and asked not in ("auto", *available()):
        asked = "auto"
    device = choose(asked)
    if asked == "auto" and not is_host(device):
        log.info("device: %s", device)
    return device


def load_model(run: Run, which: str = "best", calibration: str | None = None) -> LanguageModel:
    """The run's model on its device, with the calibration stored in it unless another (or "none") is asked for."""
    path = run.checked("best.safetensors" if which == "best" else "model.safetensors")
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
    model.requires_grad_(False).to(device_for(run))
    kind = run.kind(calibration)
    return model if kind == "none" else calibrated(model, run, kind)

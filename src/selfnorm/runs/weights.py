"""Weights as safetensors: a model's tensors to a file and back."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from selfnorm._util.devices import HOST, Rng, is_host, make_rng
from selfnorm._util.errors import UserError
from selfnorm._util.files import atomic
from selfnorm.config.recipe import Recipe
from selfnorm.criteria.build import Criterion
from selfnorm.nn.model import LanguageModel, build
from selfnorm.registry.criteria import CRITERIA


def save_weights(path: Path, model: LanguageModel) -> None:
    with atomic(path) as temporary:
        save_file(tensors_of(model), temporary, metadata={"link": model.output.link})


def tensors_of(model: LanguageModel) -> dict[str, Tensor]:
    """The state by name, on the host; a tied table is stored once."""
    tied = getattr(model.output, "weight", None) is model.encoder.table
    own = model.state_dict()
    return {name: t.cpu().contiguous() for name, t in own.items() if not (tied and name == "output.weight")}


def fresh_model(recipe: Recipe, V: int, rng: torch.Generator | None = None) -> LanguageModel:
    """A model as the recipe describes it: the criterion may need its own output layer or normalizer."""
    info = CRITERIA.find(recipe.criterion.name)
    return build(recipe.model, V, rng or make_rng(0), info.output, info.normalizer)


def begin(recipe: Recipe, V: int, criterion: Criterion, device: torch.device = HOST) -> tuple[LanguageModel, Rng]:
    """A training before its first step: fresh weights on the device, and a random generator for it.

    Weights are drawn on the CPU, the same ones for every device; a training on the CPU goes on with the generator they came from.
    """
    rng = make_rng(recipe.training.seed)
    model = fresh_model(recipe, V, rng).to(device)
    criterion.start(model.output)
    return model, rng if is_host(device) else make_rng(recipe.training.seed, device)


def fill(model: LanguageModel, tensors: dict[str, Tensor]) -> None:
    own = model.state_dict()
    tied = getattr(model.output, "weight", None) is model.encoder.table
    for name, tensor in own.items():
        if tied and name == "output.weight":
            continue
        if name not in tensors or tensors[name].shape != tensor.shape:
            raise UserError(
                f"The weights do not fit the recipe: {name} should be {tuple(tensor.shape)}. "
                "Was recipe.toml edited, or are they of another version?"
            )
        with torch.no_grad():
            tensor.copy_(tensors[name])

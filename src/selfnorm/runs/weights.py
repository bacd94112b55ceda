"""Weights as safetensors: a model's tensors to a file and back."""

from __future__ import annotations

import torch
from torch import Tensor

from selfnorm._util.change import Change
from selfnorm._util.devices import HOST, Rng, is_host, make_rng
from selfnorm._util.errors import UserError
from selfnorm._util.tensors import bytes_of, write_tensors
from selfnorm.config.recipe import Recipe
from selfnorm.criteria.build import Criterion
from selfnorm.nn.model import LanguageModel, build
from selfnorm.registry.criteria import CRITERIA


def save_weights(new: Change, name: str, model: LanguageModel) -> None:
    """Write a model's weights as part of a change to its run folder."""
    tensors = tensors_of(model)
    with new.file(name, bytes_of(tensors)) as temporary:
        write_tensors(temporary, tensors, {"link": model.output.link})


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
    """Copy tensors into the model they were stored from: the same names, shapes and types, none more and none less."""
    own = model.state_dict()
    if getattr(model.output, "weight", None) is model.encoder.table:
        del own["output.weight"]
    for name, tensor in own.items():
        stored = tensors.get(name)
        if stored is None or stored.shape != tensor.shape or stored.dtype != tensor.dtype:
            raise UserError(
                f"The weights do not fit the recipe: {name} should be {tuple(tensor.shape)} of {tensor.dtype}. "
                "Was recipe.toml edited, or are they of another version?"
            )
        with torch.no_grad():
            tensor.copy_(stored)
    if more := sorted(set(tensors) - set(own)):
        raise UserError(
            f"The weights do not fit the recipe: they hold {more[0]}, which the model has not. "
            "Was recipe.toml edited, or are they of another version?"
        )

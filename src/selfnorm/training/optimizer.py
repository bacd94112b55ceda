"""The optimizer of a model: sparse SGD on the word tables, and SGD or AdamW on everything else.

With `sgd` every parameter takes the same step (training/sgd.py). With `adamw` the parameters that are not word tables take AdamW's,
at the rate `dense_rate`; the tables keep SGD, because Adam would touch every row at every step. One norm over all gradients is
clipped either way.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from selfnorm._util.devices import HOST
from selfnorm.config.recipe import Training
from selfnorm.nn.model import LanguageModel
from selfnorm.training import sgd


class Optimizer:
    """`own` is the encoder's own choice, taken where the recipe names none."""

    def __init__(self, model: LanguageModel, training: Training, own: str = "sgd") -> None:
        self.training = training
        parameters = [p for p in model.parameters() if p.requires_grad]
        self.adamw: torch.optim.AdamW | None = None
        self.dense: list[nn.Parameter] = []
        if (training.optimizer or own) == "adamw":
            tables = {id(model.encoder.table), *(id(p) for p in model.output.parameters())}
            self.dense = [p for p in parameters if id(p) not in tables]
            self.adamw = torch.optim.AdamW(self.dense, lr=training.dense_rate, weight_decay=0.01)
        chosen = {id(p) for p in self.dense}
        self.tables = [p for p in parameters if id(p) not in chosen]

    @property
    def parameters(self) -> list[nn.Parameter]:
        return [*self.tables, *self.dense]

    def norms(self) -> list[Tensor]:
        """The norm of each gradient, on its device; sparse gradients are summed by row."""
        return sgd.norms(self.parameters)

    def apply(self, learning_rate: float, scale: float | Tensor) -> None:
        """One step with the gradients that are there, multiplied by `scale`, which clips them; then they are gone."""
        if self.adamw is None:
            sgd.update(self.tables, learning_rate, scale)
            return
        for parameter in self.dense:
            if parameter.grad is not None:
                parameter.grad.mul_(scale)
        for group in self.adamw.param_groups:
            group["lr"] = self.training.dense_rate * learning_rate / self.training.learning_rate
        with torch.device(HOST):  # torch keeps the count of steps there
            self.adamw.step()
        self.adamw.zero_grad(set_to_none=True)
        sgd.update(self.tables, learning_rate, scale)

    def tensors(self) -> dict[str, Tensor]:
        """AdamW's state by name, for a checkpoint; nothing for SGD, which has none."""
        if self.adamw is None:
            return {}
        states = self.adamw.state_dict()["state"]
        return {f"{i}.{name}": t.cpu() for i, state in states.items() for name, t in state.items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        if self.adamw is None or not tensors:
            return
        table = self.adamw.state_dict()
        table["state"] = {}
        for name, tensor in tensors.items():
            place, _, key = name.partition(".")
            table["state"].setdefault(int(place), {})[key] = tensor
        self.adamw.load_state_dict(table)

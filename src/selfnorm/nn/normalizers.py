"""Normalizers estimate log Z from c; the output layer subtracts the estimate from every score.

A normalizer is an nn.Module g with g(c) (...,) for c (..., d), and `onto(output)`: the output layer that has it subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from selfnorm.nn.precision import without_autocast

if TYPE_CHECKING:
    from selfnorm.nn.output import Output


class Normalizer(nn.Module):
    """What normalizers share: by default they are subtracted, in place of one that the model was trained with."""

    held_out: Any = None  # what `fit_normalizer` measured on contexts left out
    frontier: Any = None  # what it tried, where it chose the kind itself
    kind_name = ""  # the registered name of the calibration

    def multiply_adds(self) -> float:
        """Per context when it is used; an int8 multiply-add counts as a quarter, a bf16 one as a half."""
        return float(sum(p.numel() for p in self.parameters() if p.dim() > 1))

    def onto(self, output: Output) -> Output:
        return output.without_normalizer().with_normalizer(self)


class Affine(Normalizer):
    """g(c) = a·c + b. Where nothing bends the scores this folds into the output layer and costs nothing."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.zeros(d))
        self.b = nn.Parameter(torch.zeros(()))

    @classmethod
    def of(cls, a: Tensor, b: Tensor) -> Affine:
        """The function with these numbers, on their device."""
        with torch.device(a.device):
            made = cls(len(a)).to(a.dtype)
        made.load_state_dict({"a": a.detach(), "b": b.detach()})
        return made

    @without_autocast
    def forward(self, c: Tensor) -> Tensor:
        return c.to(self.a.dtype) @ self.a + self.b

    def onto(self, output: Output) -> Output:
        return output.minus(self.a, self.b)

    def multiply_adds(self) -> float:
        return 0.0  # folded into the rows


class Mlp(Normalizer):
    """g(c) = a·x + b + a small network of x, which starts at zero; x is c, or c and one number more.

    log Z is a smooth function of c, so a network learns it well: (d·h + h²) multiplications a word against V·d for
    the exact sum. With `frequent` words, x also holds log Σ e^m over that many rows of the output layer, a part of
    the sum itself, and the network has only the rest to learn: another frequent·d multiplications. All is multiplied by
    `scale`, which leaves what can be said as it is and makes the steps of plain SGD scale² as long.
    """

    def __init__(self, d: int, hidden: Sequence[int] = (128, 128), frequent: int = 0, scale: float = 1.0) -> None:
        super().__init__()
        self.scale: Tensor
        self.register_buffer(
            "scale", torch.tensor(scale), persistent=scale != 1
        )  # stored, so that none is read as another
        self.frequent = nn.Linear(d, frequent) if frequent else None
        sizes = [d + bool(frequent), *hidden]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.SiLU()]
        last = nn.Linear(sizes[-1], 1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.affine = Affine(sizes[0])
        self.network = nn.Sequential(*layers, last)

    def scatter(self, rng: torch.Generator) -> None:
        """Fresh hidden weights: small and random, from `rng` alone."""
        with torch.no_grad():
            for layer in list(self.network)[:-1]:
                if isinstance(layer, nn.Linear):
                    bound = math.sqrt(3.0 / layer.in_features)
                    layer.weight.uniform_(-bound, bound, generator=rng)
                    layer.bias.zero_()

    def features(self, c: Tensor) -> Tensor:
        if self.frequent is None:
            return c
        return torch.cat([c, self.frequent(c).logsumexp(-1, keepdim=True)], dim=-1)

    @without_autocast
    def forward(self, c: Tensor) -> Tensor:
        x = self.features(c.to(self.affine.a.dtype))
        value: Tensor = self.affine(x) + self.network(x).squeeze(-1)
        return self.scale * value


class Sum(nn.Module):
    """The sum of two normalizers: a calibration on top of one that was trained with the model."""

    def __init__(self, one: nn.Module, two: nn.Module) -> None:
        super().__init__()
        self.one, self.two = one, two

    def forward(self, c: Tensor) -> Tensor:
        value: Tensor = self.one(c) + self.two(c)
        return value

"""Normalizers estimate log Z from c; the output layer subtracts what they say from every score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class Affine(nn.Module):
    """g(c) = a·c + b. Where nothing bends the scores this folds into the output layer and costs nothing."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.zeros(d))
        self.b = nn.Parameter(torch.zeros(()))

    def forward(self, c: Tensor) -> Tensor:
        return c @ self.a + self.b


class Mlp(nn.Module):
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
        """Hidden weights anew: small and random, from `rng` alone."""
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

    def forward(self, c: Tensor) -> Tensor:
        x = self.features(c)
        value: Tensor = self.affine(x) + self.network(x).squeeze(-1)
        return self.scale * value


class Sum(nn.Module):
    """What two normalizers say together: a calibration on top of one that was trained with the model."""

    def __init__(self, one: nn.Module, two: nn.Module) -> None:
        super().__init__()
        self.one, self.two = one, two

    def forward(self, c: Tensor) -> Tensor:
        value: Tensor = self.one(c) + self.two(c)
        return value

"""Normalizers estimate log Z from c; the output layer subtracts what they say from every score."""

from __future__ import annotations

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
    """g(c) = a·c + b + a small network of c, which starts at zero.

    log Z is a smooth function of c, so a network learns it well: (d·h + h²) multiplications a word
    against V·d for the exact sum.
    """

    def __init__(self, d: int, hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        sizes = [d, *hidden]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.SiLU()]
        last = nn.Linear(sizes[-1], 1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.affine = Affine(d)
        self.network = nn.Sequential(*layers, last)

    def forward(self, c: Tensor) -> Tensor:
        value: Tensor = self.affine(c) + self.network(c).squeeze(-1)
        return value


class Sum(nn.Module):
    """What two normalizers say together: a calibration on top of one that was trained with the model."""

    def __init__(self, one: nn.Module, two: nn.Module) -> None:
        super().__init__()
        self.one, self.two = one, two

    def forward(self, c: Tensor) -> Tensor:
        value: Tensor = self.one(c) + self.two(c)
        return value

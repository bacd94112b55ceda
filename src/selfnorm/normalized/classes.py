"""Class softmax: first the class, then the word in it."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfnorm.normalized.shape import Normalized


class Classes(Normalized):
    """p(w|c) = p(class of w | c) · p(w | class, c), with about √V classes of √V words of like frequency.

    A target costs 2·√V·d instead of V·d, and only its class's rows get a gradient (Goodman 2001).
    """

    def __init__(self, V: int, d: int) -> None:
        super().__init__(V, d)
        self.size = math.ceil(math.sqrt(V))
        self.count = -(-V // self.size)
        self.classes = nn.Linear(d, self.count)
        self.words = nn.Parameter(torch.zeros(self.count, self.size * d))
        self.bias = nn.Parameter(torch.zeros(self.count, self.size))

    def _absent(self, group: Tensor) -> Tensor:
        """True where the last class has no word (..., size)."""
        return group.unsqueeze(-1) * self.size + torch.arange(self.size) >= self.V

    def log_p(self, w: Tensor, c: Tensor) -> Tensor:
        group, place = w // self.size, w % self.size
        first: Tensor = self.classes(c).log_softmax(-1).gather(1, group.unsqueeze(1)).squeeze(1)
        rows = F.embedding(group, self.words, sparse=True).view(len(w), self.size, self.d)
        m = torch.bmm(rows, c.unsqueeze(2)).squeeze(2) + F.embedding(group, self.bias, sparse=True)
        second = m.masked_fill(self._absent(group), -math.inf).log_softmax(-1)
        return first + second.gather(1, place.unsqueeze(1)).squeeze(1)

    def all_m(self, c: Tensor) -> Tensor:
        m = (c @ self.words.view(-1, self.d).t()).view(len(c), self.count, self.size) + self.bias
        m = m.masked_fill(self._absent(torch.arange(self.count)), -math.inf).log_softmax(-1)
        first: Tensor = self.classes(c).log_softmax(-1).unsqueeze(-1)
        return (first + m).reshape(len(c), -1)[:, : self.V]

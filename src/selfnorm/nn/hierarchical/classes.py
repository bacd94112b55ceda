"""Class softmax: first the class, then the word in it."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfnorm._util.devices import moved, to_host
from selfnorm.nn.hierarchical.base import Normalized


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
        return group.unsqueeze(-1) * self.size + torch.arange(self.size, device=group.device) >= self.V

    def log_p(self, w: Tensor, c: Tensor) -> Tensor:
        """Targets are taken class by class, so that a class's rows are looked up once however many targets are in it."""
        if not len(w):
            return c.new_zeros(0)
        classes = to_host(w) // self.size  # the one number a device must give: how many targets each class has
        order = moved(torch.from_numpy(classes.argsort(kind="stable")), c.device)
        c, group, place = c[order], w[order] // self.size, (w[order] % self.size).unsqueeze(1)
        first: Tensor = self.classes(c).log_softmax(-1).gather(1, group.unsqueeze(1))
        second = self._within(classes, group, c).log_softmax(-1).gather(1, place)
        log_p = (first + second).squeeze(1)
        return torch.empty_like(log_p).index_copy(0, order, log_p)

    def _within(self, classes: np.ndarray, group: Tensor, c: Tensor) -> Tensor:
        """Scores of the words in each context's class (N, size); contexts are ordered by class."""
        different, counts = np.unique(classes, return_counts=True)
        groups = moved(torch.from_numpy(different), c.device)
        rows = F.embedding(groups, self.words, sparse=True).view(-1, self.size, self.d)
        bias = F.embedding(groups, self.bias, sparse=True)
        parts = zip(c.split(counts.tolist()), rows, bias, strict=True)  # type: ignore[no-untyped-call]
        m = torch.cat([torch.addmm(b, part, row.t()) for part, row, b in parts])
        return m.masked_fill(self._absent(group), -math.inf)

    def all_m(self, c: Tensor) -> Tensor:
        m = (c @ self.words.view(-1, self.d).t()).view(len(c), self.count, self.size) + self.bias
        m = m.masked_fill(self._absent(torch.arange(self.count, device=c.device)), -math.inf).log_softmax(-1)
        first: Tensor = self.classes(c).log_softmax(-1).unsqueeze(-1)
        return (first + m).reshape(len(c), -1)[:, : self.V]

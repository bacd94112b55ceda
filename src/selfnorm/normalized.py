"""Output layers that are normalized by construction: m(w,c) is log p(w|c) and log Z is 0.

They answer the same calls as Output, so every room can use them; what they cannot do is be shifted.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfnorm.errors import UserError
from selfnorm.one_pass import rows


class Normalized(nn.Module):
    """What class and adaptive softmax share: all is said by log p of a target and log p of every word."""

    link = ""
    normalizer = None

    def __init__(self, V: int, d: int) -> None:
        super().__init__()
        self.V, self.d = V, d

    def log_p(self, w: Tensor, c: Tensor) -> Tensor:
        """(N,) words, (N, d) contexts -> (N,)."""
        raise TypeError("Normalized is a shape: use Classes or Adaptive")

    def all_m(self, c: Tensor) -> Tensor:
        """(N, d) -> (N, V)."""
        raise TypeError("Normalized is a shape: use Classes or Adaptive")

    def m(self, w: Tensor, c: Tensor) -> Tensor:
        return self.log_p(w.reshape(-1), c.reshape(-1, self.d)).view(w.shape)

    def m_each(self, w: Tensor, c: Tensor) -> Tensor:
        every = self.all_m(c.reshape(-1, self.d)).view(*c.shape[:-1], self.V)
        return every.gather(-1, w.expand(*c.shape[:-1], w.shape[-1]))

    def m_shared(self, w: Tensor, c: Tensor) -> Tensor:
        return self.all_m(c.reshape(-1, self.d))[:, w].view(*c.shape[:-1], len(w))

    def target_and_log_z(self, w: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        m = self.m(w, c)
        return m, torch.zeros_like(m)

    def log_z(self, c: Tensor) -> Tensor:
        return c.new_zeros(c.shape[:-1])

    def log_z_and_entropy(self, c: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            parts = [self.all_m(c[some]) for some in rows(len(c), 256)]
            return self.log_z(c), torch.cat([-(m.exp() * m).sum(1) for m in parts])

    def minus(self, a: Tensor, b: Tensor) -> Normalized:
        raise UserError("This model is normalized by construction: log Z is 0 and there is nothing to calibrate.")

    def with_normalizer(self, normalizer: nn.Module) -> Normalized:
        return self.minus(torch.zeros(()), torch.zeros(()))


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


class Adaptive(Normalized):
    """torch's adaptive softmax: a full softmax over frequent words, smaller ones over the rest (Grave et al. 2017)."""

    def __init__(self, V: int, d: int) -> None:
        super().__init__(V, d)
        cutoffs = sorted({c for c in (V // 10, V // 3) if 0 < c < V - 1}) or [max(1, V // 2)]
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(d, V, cutoffs, div_value=2.0)

    def log_p(self, w: Tensor, c: Tensor) -> Tensor:
        found: Tensor = self.softmax(c, w).output
        return found

    def all_m(self, c: Tensor) -> Tensor:
        found: Tensor = self.softmax.log_prob(c)
        return found


KINDS: dict[str, type[Classes] | type[Adaptive]] = {"classes": Classes, "adaptive": Adaptive}

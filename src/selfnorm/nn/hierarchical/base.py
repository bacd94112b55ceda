"""Output layers that are normalized by construction: m(w,c) is log p(w|c) and log Z is 0.

They answer the same calls as Output, so everything can use them; what they cannot do is be shifted.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from selfnorm._util.errors import UserError
from selfnorm.nn.log_z import rows

NOTHING = "This model is normalized by construction: log Z is 0 and there is nothing to calibrate."


class Normalized(nn.Module):
    """What class and adaptive softmax share: all is said by log p of a target and log p of every word."""

    link = ""
    normalizer = None

    def __init__(self, V: int, d: int) -> None:
        super().__init__()
        self.V, self.d = V, d

    def log_p(self, w: Tensor, c: Tensor) -> Tensor:
        """(N,) words, (N, d) contexts -> (N,)."""
        raise TypeError("Normalized is a base class: use Classes or Adaptive")

    def all_m(self, c: Tensor) -> Tensor:
        """(N, d) -> (N, V)."""
        raise TypeError("Normalized is a base class: use Classes or Adaptive")

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
        raise UserError(NOTHING)

    def with_normalizer(self, normalizer: nn.Module) -> Normalized:
        raise UserError(NOTHING)

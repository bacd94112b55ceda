"""Adaptive softmax: frequent words at full size, rare ones smaller."""

from __future__ import annotations

from torch import Tensor, nn

from selfnorm.nn.hierarchical.base import Normalized


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

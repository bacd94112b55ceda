"""Adaptive softmax: frequent words at full size, rare ones smaller."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from selfnorm._util import devices
from selfnorm.nn.hierarchical.base import Normalized


class Adaptive(Normalized):
    """torch's adaptive softmax: a full softmax over frequent words, smaller ones over the rest (Grave et al. 2017)."""

    def __init__(self, V: int, d: int) -> None:
        super().__init__(V, d)
        cutoffs = sorted({c for c in (V // 10, V // 3) if 0 < c < V - 1}) or [max(1, V // 2)]
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(d, V, cutoffs, div_value=2.0)

    def log_p(self, w: Tensor, c: Tensor) -> Tensor:
        if devices.is_host(c.device):
            found: Tensor = self.softmax(c, w).output
            return found
        return self._with_one_read(w, c)

    def _with_one_read(self, w: Tensor, c: Tensor) -> Tensor:
        """The same where reading is not free: torch's asks the device for the targets of each cluster, twice."""
        soft, words = self.softmax, devices.to_host(w)
        cluster = np.searchsorted(soft.cutoffs[:-1], words, side="right")  # 0 is the frequent words
        first = np.where(cluster == 0, words, soft.shortlist_size + cluster - 1)
        place = devices.moved(torch.from_numpy(first), c.device).unsqueeze(1)
        log_p: Tensor = soft.head(c).log_softmax(1).gather(1, place).squeeze(1)
        for number, tail in enumerate(soft.tail, 1):
            rows = devices.moved(torch.from_numpy(np.flatnonzero(cluster == number)), c.device)
            if len(rows):
                within = (w[rows] - soft.cutoffs[number - 1]).unsqueeze(1)
                log_p = log_p.index_add(0, rows, tail(c[rows]).log_softmax(1).gather(1, within).squeeze(1))
        return log_p

    def all_m(self, c: Tensor) -> Tensor:
        found: Tensor = self.softmax.log_prob(c)
        return found

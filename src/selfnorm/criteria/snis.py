"""Self-normalized importance sampling: a yes/no question for every class, most of them sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from selfnorm.criteria.fit import Draw, Fitted
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


@dataclass(frozen=True)
class SelfNormalizedImportance:
    """A yes/no question for every class; those of the other classes are sampled and weighted by 1/q.

        loss(w, c) = -log σ(m(w)) - (1/k) Σ_{w_i ≠ w} log(1 - σ(m_i)) / q(w_i)

    The optimum is σ(m) = p, so probabilities are read through a log-sigmoid (Yang et al. 2022).
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn = self.draw(output, c, window, rng)
        misses = drawn.w != window.targets.unsqueeze(-1)
        weight = torch.where(misses, (-drawn.log_q - math.log(self.draw.k)).exp(), 0.0)
        others = F.softplus(drawn.m) * weight
        return Fitted(F.softplus(-output.m(window.targets, c)) + others.sum(-1))

    def recover(self, output: Output) -> Output:
        return output.with_link("log_sigmoid")

"""Criteria that bound or split the likelihood so that samples suffice and Z is still pinned."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from selfnorm.batches import Window
from selfnorm.criteria.fit import Draw, Fitted
from selfnorm.output import Output


@dataclass(frozen=True)
class LinearBound:
    """log Z is at most Z - 1, and Z can be sampled without bias.

        loss(w, c) = -m(w,c) - 1 + (1/k) Σ_i f(m_i)/q_i,    f(x) = e^x for x < 0 and 1 + x above

    Z = 1 makes the bound exact, so the optimum is exp(m) = p. Bounding the exponential keeps training
    stable and does not move the optimum, where every m is below 0 (Xu et al. 2018, Kaldi's RNNLM).
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn = self.draw(output, c, window, rng)
        bounded = torch.where(drawn.m < 0, drawn.m.clamp(max=0).exp(), 1 + drawn.m)
        z = (bounded * (-drawn.log_q).exp()).mean(-1)
        m = output.m(window.targets, c)
        return Fitted(z - 1 - m, drawn=drawn, m=m)


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

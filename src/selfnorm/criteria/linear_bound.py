"""Linear bound: Kaldi's way to replace log Z by something that can be sampled."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from selfnorm.criteria.fit import Draw, Fitted
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


@dataclass(frozen=True)
class LinearBound:
    """log Z is at most Z - 1, and Z can be sampled without bias.

        loss(w, c) = -m(w,c) - 1 + f(m(w)) + (1/k) Σ_{w_i ≠ w} f(m_i)/q_i,    f(x) = e^x for x < 0 and 1 + x + x²/2 above

    Z = 1 makes the bound exact, so the optimum is exp(m) = p. Bounding the exponential keeps training stable and does not
    move the optimum, where every m is below 0 (Xu et al. 2018, Kaldi's RNNLM). Kaldi's bound is 1 + x, whose slope above 0 is
    the 1 that a certain target pulls with: nothing brings such a score back. The square does. The target is counted
    itself, which keeps the sum unbiased: a word that is likely here and seldom drawn would rise until it is, and then fall far.
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn, m = self.draw(output, c, window, rng), output.m(window.targets, c)
        misses = drawn.w != window.targets.unsqueeze(-1)
        others = (_bounded(drawn.m) * (-drawn.log_q).exp() * misses).mean(-1)
        return Fitted(_bounded(m) + others - 1 - m, drawn=drawn, m=m)


def _bounded(x: Tensor) -> Tensor:
    above = F.relu(x)
    return x.clamp(max=0).exp() + above + above**2 / 2

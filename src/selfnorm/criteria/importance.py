"""Importance sampling: the softmax with its sum estimated."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from selfnorm.criteria.fit import Draw, Fitted
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


@dataclass(frozen=True)
class Importance:
    """The softmax with its sum estimated from samples weighted 1/q; the target is counted itself.

        loss(w, c) = -m(w,c) + log Ẑ,    Ẑ = e^{m(w)} + (1/k) Σ_{w_i ≠ w} e^{m_i}/q_i

    The softmax as k grows, biased before (Bengio & Senécal 2003). From samples alone the loss would fall without bound for
    every word likelier than it is to be drawn. A constant added to every score changes nothing: log Z stays free.
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn, m = self.draw(output, c, window, rng), output.m(window.targets, c)
        return Fitted(drawn.log_z_hat(window, m) - m, drawn=drawn, m=m)

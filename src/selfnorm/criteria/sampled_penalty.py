"""The sampled penalty: (log Z)² from noise words alone, with any fit."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from selfnorm.criteria.fit import Draw, Fitted
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


@dataclass(frozen=True)
class Sampled:
    """alpha · (log Ẑ)² with Ẑ = e^{m(w)} + (1/k) Σ_{w_i ≠ w} e^{m_i}/q_i from the fit's own noise words: nothing grows with V.

    log Ẑ is low by about Var(Ẑ)/(2 Z²), so log Z ends a little above 0; a constant part of that is removed by `shift`.
    In expectation it is alpha (log Z)² and about alpha Var(Ẑ)/Z², which holds back what is likely and hard to draw.
    """

    alpha: float
    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, fitted: Fitted, rng: torch.Generator) -> Tensor:
        drawn = fitted.drawn or self.draw(output, c, window, rng)
        m = output.m(window.targets, c) if fitted.m is None else fitted.m
        return self.alpha * drawn.log_z_hat(window, m) ** 2

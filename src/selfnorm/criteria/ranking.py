"""Ranking NCE: pick the true word out of a line-up."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from selfnorm.criteria.fit import Draw, Fitted
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


@dataclass(frozen=True)
class Ranking:
    """Pick the true word out of a line-up with k i.i.d. noise words, hits kept.

        loss(w, c) = -log [ e^{m(w)}/q(w) / (e^{m(w)}/q(w) + Σ_i e^{m_i}/q(w_i)) ]

    The optimum is softmax(m) = p for any k; a constant added to every score changes nothing, so log Z stays free where
    NCE's question, asked of one word at a time, pins it (Ma & Collins 2018).
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn, m = self.draw(output, c, window, rng), output.m(window.targets, c)
        true = m - self.draw.log_q(window).to(m.dtype)
        both = torch.cat([true.unsqueeze(-1), drawn.m - drawn.log_q], dim=-1)
        return Fitted(both.logsumexp(-1) - true, drawn=drawn, m=m)

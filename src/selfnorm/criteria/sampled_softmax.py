"""Sampled softmax: cross-entropy over a sample, corrected by how often a word is in it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from selfnorm.criteria.fit import Draw, Fitted, line_up
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


@dataclass(frozen=True)
class SampledSoftmax:
    """Cross-entropy over the set S of the target and the noise words, each word once, corrected by log Q.

        loss(w, c) = -log [ e^{m(w) - log Q(w)} / Σ_{v in S} e^{m(v) - log Q(v)} ],    Q(v) = 1 - (1 - q(v))^k

    Q is how often a word is in the set, not how often it is drawn: with q instead, frequent words would be
    learnt far too likely, the more so the larger k (Jean et al. 2015). Scores are compared within the set only, so log Z stays free.
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn, m = self.draw(output, c, window, rng), output.m(window.targets, c)
        set_ = line_up(self.draw, drawn, window, m)
        return Fitted(set_.logsumexp(-1) - set_[..., 0], drawn=drawn, m=m)

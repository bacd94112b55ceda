"""BlackOut: sampled softmax that also teaches what the samples are not."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from selfnorm.criteria.fit import Draw, Fitted, line_up
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


@dataclass(frozen=True)
class BlackOut:
    """Sampled softmax that also pushes each sampled word's own probability down.

        p̃(j) = (e^{m_j}/Q_j) / Σ over the set of the target and the samples;   loss(w, c) = -log p̃(w) - Σ_{j ≠ w} log(1 - p̃(j))

    A yes/no question for each word of the set, so its optimum is sampled softmax's. Noise is unigram^power, by
    custom power 0.4 to 0.75; log Z stays free (Ji et al. 2016).
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn, m = self.draw(output, c, window, rng), output.m(window.targets, c)
        log_p = line_up(self.draw, drawn, window, m).log_softmax(-1)
        # log(1 - p) from log p; a word taken out has p = 0 and adds nothing. The clamp keeps a certain sample finite.
        others = torch.log1p(-log_p[..., 1:].exp().clamp(max=1 - 1e-6))
        return Fitted(-log_p[..., 0] - others.sum(-1), drawn=drawn, m=m)

"""NCE-LM: noise contrastive estimation."""

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
class Nce:
    """Tell the true next word from k words drawn from the noise.

        loss(w, c) = -log σ(m(w,c) - log k·q(w)) - Σ_i log σ(log k·q(w_i) - m(w_i,c))

    Unlike softmax, this loss changes when a constant is added to every score, so it pulls log Z towards 0
    without ever computing it. Noise words that equal the target are kept: the theory assumes i.i.d. noise.
    Eq. 2 of Goldberger & Melamud (2018); Gutmann & Hyvärinen (2012).
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        m = output.m(window.targets, c)
        drawn = self.draw(output, c, window, rng)
        log_k = math.log(self.draw.k)
        true = F.logsigmoid(m - self.draw.log_q(window).to(m.dtype) - log_k)
        noise = F.logsigmoid(drawn.log_q + log_k - drawn.m)
        return Fitted(-true - noise.sum(-1), drawn=drawn, m=m)

"""NCE-LM: noise contrastive estimation, with noise from a distribution or from the batch itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from selfnorm.batches import Window
from selfnorm.criteria.fit import Draw, Fitted
from selfnorm.errors import UserError
from selfnorm.output import Output


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


@dataclass(frozen=True)
class BatchNce:
    """NCE whose noise words are the targets of the window's other streams, k = (B - 1)·T of them, at no cost of sampling.

    Targets from elsewhere in a long text are draws from its unigram distribution, so the optimum is NCE's. Those of the
    context's own stream are not: they are its neighbours (Oualil & Klakow 2017).
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        w, (B, T) = window.targets.reshape(-1), window.targets.shape
        if B < 2:
            raise UserError(
                "nce_batch takes its noise words from the other streams: training.batch must be at least 2."
            )
        m = output.m_shared(w, c.reshape(-1, c.shape[-1]))  # (N, N): own target on the diagonal
        log_kq = self.draw.log_q(window).reshape(-1).to(m.dtype) + math.log((B - 1) * T)
        true = F.logsigmoid(m.diagonal() - log_kq)
        stream = torch.arange(len(w)) // T
        noise = F.logsigmoid(log_kq - m).masked_fill(stream == stream.unsqueeze(1), 0.0)
        return Fitted((-true - noise.sum(-1)).view(B, T))

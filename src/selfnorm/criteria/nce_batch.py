"""Batch NCE: the noise words are the other targets of the window."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from selfnorm._util.errors import UserError
from selfnorm.criteria.fit import Draw, Fitted
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


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

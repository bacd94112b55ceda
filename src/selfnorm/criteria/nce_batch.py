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
        w, (B, T) = window.batch.targets.reshape(-1), window.batch.targets.shape
        if B < 2:
            raise UserError(
                "nce_batch takes its noise words from the other streams: training.batch must be at least 2."
            )
        m = output.m_shared(
            w, c.reshape(-1, c.shape[-1])
        )  # (N, all N): own target on the diagonal that starts at `first`
        log_kq = self.draw.log_q(window.batch).reshape(-1).to(m.dtype) + math.log((B - 1) * T)
        stream, first = torch.arange(len(w), device=w.device) // T, window.first * T
        own = slice(first, first + len(m))
        true = F.logsigmoid(m.diagonal(first) - log_kq[own])
        noise = F.logsigmoid(log_kq - m).masked_fill(stream == stream[own].unsqueeze(1), 0.0)
        return Fitted((-true - noise.sum(-1)).view(window.targets.shape))

"""What every criterion is made of: a fit teaches prediction, and may draw noise words to do it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from selfnorm._util.errors import UserError
from selfnorm.data.windows import Window
from selfnorm.nn.noise import BigramNoise, Noise
from selfnorm.nn.output import Output


@dataclass(frozen=True)
class Drawn:
    """k noise words a context: ids, scores m (B, T, k), and log q, which may be short of leading axes."""

    w: Tensor
    m: Tensor
    log_q: Tensor

    def log_z_hat(self, window: Window, m: Tensor) -> Tensor:
        """log of Ẑ = e^{m(w)} + (1/k) Σ_{w_i ≠ w} e^{m_i}/q_i (B, T), with w the target and m its score.

        Ẑ is unbiased; its log is low by about Var(Ẑ)/(2 Z²). Counting the target itself takes out the largest part of
        that variance: a rare word that is likely here is seldom drawn, and then weighs 1/q.
        """
        hits = self.w == window.targets.unsqueeze(-1)
        others = (self.m - self.log_q).masked_fill(hits, -math.inf).logsumexp(-1)
        return torch.logaddexp(m, others - math.log(self.m.shape[-1]))


@dataclass(frozen=True)
class Fitted:
    """loss (B, T), and what the fit happened to compute on the way, for the penalty to use."""

    loss: Tensor
    log_z: Tensor | None = None
    drawn: Drawn | None = None
    m: Tensor | None = None  # of the targets (B, T)
    penalty: Tensor | None = None  # (B, T), where the fit computes its own


class Fit(Protocol):
    """The half of a criterion that teaches prediction: c (B, T, d) against window.targets (B, T)."""

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted: ...


@dataclass(frozen=True)
class Draw:
    """How noise words are drawn: k of them from `noise`, one set per window, step or token.

    One set shared by the whole window turns the noise scores into one product of (N, d) and (d, k),
    about fifty times cheaper on a CPU than separate words for every token. Where several processes share a batch, they draw
    the same words from the same generator: words for every token are drawn for all streams, and each takes its own.
    """

    noise: Noise | BigramNoise
    k: int
    shared: str = "window"

    def __post_init__(self) -> None:
        if isinstance(self.noise, BigramNoise) and self.shared != "token":
            raise UserError('criterion.noise = "bigram" depends on the previous word: set criterion.shared = "token".')

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Drawn:
        if isinstance(self.noise, BigramNoise):
            w = window.mine(self.noise.sample_after(window.batch.inputs, self.k, rng))
            return Drawn(w, output.m_each(w, c), self.noise.log_p_after(w, window.inputs.unsqueeze(-1)))
        B, T = window.batch.targets.shape
        shape = {"window": (self.k,), "step": (T, self.k), "token": (B, T, self.k)}[self.shared]
        w = self.noise.sample(shape, rng)
        w = window.mine(w) if self.shared == "token" else w
        m = output.m_shared(w, c) if self.shared == "window" else output.m_each(w, c)
        return Drawn(w, m, self.noise.log_p(w).to(m.dtype))

    def log_q(self, window: Window) -> Tensor:
        """log q of the targets (B, T)."""
        if isinstance(self.noise, BigramNoise):
            return self.noise.log_p_after(window.targets, window.inputs)
        return self.noise.log_p(window.targets)

    def log_q_in_set(self, log_q: Tensor) -> Tensor:
        """log Q(w), Q = 1 - (1 - q)^k: the probability that w is among the k words at all."""
        return torch.log(-torch.expm1(self.k * torch.log1p(-log_q.exp())))

    def log_kq_per_word(self) -> Tensor:
        """log k·q(w) for every word (V,), for criteria that must add it back after training."""
        if isinstance(self.noise, BigramNoise):
            raise UserError(
                "This criterion adds log k·q(w) back to each word's bias, which bigram noise does not allow."
            )
        return self.noise.log_p(torch.arange(len(self.noise), device=self.noise.alias.device)) + math.log(self.k)


def line_up(draw: Draw, drawn: Drawn, window: Window, m: Tensor) -> Tensor:
    """m - log Q (B, T, 1 + k) of the set of the target, which stands first, and the noise words.

    A set has every word once: noise words drawn again, or equal to the target, are taken out (-inf). Were the words put into
    it independently of each other, the target would be word i of the set with probability p_i/Q_i over the sum of these.
    """
    true = m - draw.log_q_in_set(draw.log_q(window).to(m.dtype))
    out = (drawn.w == window.targets.unsqueeze(-1)) | again(drawn.w)
    others = (drawn.m - draw.log_q_in_set(drawn.log_q)).masked_fill(out, -math.inf)
    return torch.cat([true.unsqueeze(-1), others], dim=-1)


def again(w: Tensor) -> Tensor:
    """Which words of w (..., k) stand earlier in their row too."""
    ordered, places = w.sort(dim=-1, stable=True)
    same = torch.zeros_like(w, dtype=torch.bool)
    same[..., 1:] = ordered[..., 1:] == ordered[..., :-1]
    return torch.zeros_like(same).scatter(-1, places, same)

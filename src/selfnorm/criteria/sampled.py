"""Softmax over a sample: importance sampling, sampled softmax, ranking NCE, BlackOut.

All four compare scores within one context, so a constant added to every score changes nothing: none pins Z.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from selfnorm.batches import Window
from selfnorm.criteria.fit import Draw, Fitted, without_hits
from selfnorm.output import Output


@dataclass(frozen=True)
class Importance:
    """The softmax gradient with its expectation estimated from samples weighted e^{m_i}/q_i.

        loss(w, c) = -m(w,c) + log (1/k) Σ_i e^{m_i}/q_i

    Biased for small k and known to diverge when the noise is far from the model (Bengio & Senécal 2003).
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn = self.draw(output, c, window, rng)
        return Fitted(drawn.log_z_hat() - output.m(window.targets, c), drawn=drawn)


@dataclass(frozen=True)
class SampledSoftmax:
    """Cross-entropy over the target and the samples, corrected by log Q, samples equal to the target removed.

        loss(w, c) = -log [ e^{m(w) - log q(w)} / (e^{m(w) - log q(w)} + Σ_{w_i ≠ w} e^{m_i - log q(w_i)}) ]

    Removing hits biases frequent words a little; ranking NCE keeps them and is exact (Jean et al. 2015).
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn = self.draw(output, c, window, rng)
        m = output.m(window.targets, c)
        true = m - self.draw.log_q(window).to(m.dtype)
        both = torch.cat([true.unsqueeze(-1), without_hits(drawn, window)], dim=-1)
        return Fitted(both.logsumexp(-1) - true, drawn=drawn)


@dataclass(frozen=True)
class Ranking:
    """Pick the true word out of a line-up with k i.i.d. noise words, hits kept (Ma & Collins 2018).

    loss(w, c) = -log [ e^{m(w)}/q(w) / (e^{m(w)}/q(w) + Σ_i e^{m_i}/q(w_i)) ]
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn = self.draw(output, c, window, rng)
        m = output.m(window.targets, c)
        true = m - self.draw.log_q(window).to(m.dtype)
        both = torch.cat([true.unsqueeze(-1), drawn.m - drawn.log_q], dim=-1)
        return Fitted(both.logsumexp(-1) - true, drawn=drawn)


@dataclass(frozen=True)
class BlackOut:
    """Sampled softmax that also pushes each sampled word's own probability down.

        p̃(j) = (e^{m_j}/q_j) / Σ over {w} and the samples;   loss(w, c) = -log p̃(w) - Σ_{w_i ≠ w} log(1 - p̃(w_i))

    Noise is unigram^power, by custom power 0.4 to 0.75 (Ji et al. 2016).
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn = self.draw(output, c, window, rng)
        m = output.m(window.targets, c)
        true = m - self.draw.log_q(window).to(m.dtype)
        both = torch.cat([true.unsqueeze(-1), without_hits(drawn, window)], dim=-1)
        log_p = both.log_softmax(-1)
        # log(1 - p) from log p; a hit has p = 0 and adds nothing. The clamp keeps a certain sample finite.
        others = torch.log1p(-log_p[..., 1:].exp().clamp(max=1 - 1e-6))
        return Fitted(-log_p[..., 0] - others.sum(-1), drawn=drawn)

"""Softmax over a sample: importance sampling, sampled softmax, ranking NCE, BlackOut.

All four compare scores within one context, so a constant added to every score changes nothing: none pins Z.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from selfnorm.batches import Window
from selfnorm.criteria.fit import Draw, Fitted, line_up
from selfnorm.output import Output


@dataclass(frozen=True)
class Importance:
    """The softmax with its sum estimated from samples weighted 1/q; the target is counted itself.

        loss(w, c) = -m(w,c) + log Ẑ,    Ẑ = e^{m(w)} + (1/k) Σ_{w_i ≠ w} e^{m_i}/q_i

    The softmax as k grows, biased before (Bengio & Senécal 2003). From samples alone the loss would fall without bound for
    every word likelier than it is to be drawn.
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn, m = self.draw(output, c, window, rng), output.m(window.targets, c)
        return Fitted(drawn.log_z_hat(window, m) - m, drawn=drawn, m=m)


@dataclass(frozen=True)
class SampledSoftmax:
    """Cross-entropy over the set S of the target and the noise words, each word once, corrected by log Q.

        loss(w, c) = -log [ e^{m(w) - log Q(w)} / Σ_{v in S} e^{m(v) - log Q(v)} ],    Q(v) = 1 - (1 - q(v))^k

    Q is how often a word is in the set, not how often it is drawn: with q instead, frequent words would be
    learnt far too likely, the more so the larger k (Jean et al. 2015).
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn, m = self.draw(output, c, window, rng), output.m(window.targets, c)
        set_ = line_up(self.draw, drawn, window, m)
        return Fitted(set_.logsumexp(-1) - set_[..., 0], drawn=drawn, m=m)


@dataclass(frozen=True)
class Ranking:
    """Pick the true word out of a line-up with k i.i.d. noise words, hits kept (Ma & Collins 2018).

    loss(w, c) = -log [ e^{m(w)}/q(w) / (e^{m(w)}/q(w) + Σ_i e^{m_i}/q(w_i)) ]
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn, m = self.draw(output, c, window, rng), output.m(window.targets, c)
        true = m - self.draw.log_q(window).to(m.dtype)
        both = torch.cat([true.unsqueeze(-1), drawn.m - drawn.log_q], dim=-1)
        return Fitted(both.logsumexp(-1) - true, drawn=drawn, m=m)


@dataclass(frozen=True)
class BlackOut:
    """Sampled softmax that also pushes each sampled word's own probability down.

        p̃(j) = (e^{m_j}/Q_j) / Σ over the set of the target and the samples;   loss(w, c) = -log p̃(w) - Σ_{j ≠ w} log(1 - p̃(j))

    A yes/no question for each word of the set, so its optimum is sampled softmax's. Noise is unigram^power, by
    custom power 0.4 to 0.75 (Ji et al. 2016).
    """

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn, m = self.draw(output, c, window, rng), output.m(window.targets, c)
        log_p = line_up(self.draw, drawn, window, m).log_softmax(-1)
        # log(1 - p) from log p; a word taken out has p = 0 and adds nothing. The clamp keeps a certain sample finite.
        others = torch.log1p(-log_p[..., 1:].exp().clamp(max=1 - 1e-6))
        return Fitted(-log_p[..., 0] - others.sum(-1), drawn=drawn, m=m)

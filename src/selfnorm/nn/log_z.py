"""The target's score and the exact log Z from one pass over the scores, with memory bounded by a budget.

Plain autograd walks over the (N, V) scores about ten times. Here the forward pass overwrites them in place with the
probabilities P, row by row while a row is in the cache, and reads log Z off one entry of each: log Z = m(w,c) - log P(w|c).
The backward pass never touches P except inside the two products it cannot avoid:

    d log Z / dc = diag(s) (P·W),    d log Z / dW = Pᵀ·(diag(s) c),    s = upstream gradient

so scaling happens on the small (N, d) side. The products with V rows or columns are made in panels of words: one call for
all of them is a tenth slower (docs/performance.md). If P does not fit the budget, or no gradient is wanted, the scores are
made in blocks of words instead: each row of W is read once a pass, and only N times a block of scores is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from selfnorm._util import devices
from selfnorm.nn import amx, int16
from selfnorm.nn.precision import HALF, products, without_autocast
from selfnorm.nn.reductions import log_sum, log_sum_and_mean

BUDGET = 1 << 30  # bytes of scores that may be kept between forward and backward
SLICE = 1 << 24  # bytes of scores held at a time when they are not kept
PANEL = 1024  # words a product takes at a time: a panel of W and of the scores stays in the cache
FEWEST = 100  # contexts for which packing all rows in int16 is worth it
TINY = 1e-30  # a probability below this has lost digits: its logarithm is not trusted


def _half() -> bool:
    return products() == "bf16"


def _fixed(c: Tensor, *others: Tensor) -> bool:
    return products() == "int16" and len(c) >= FEWEST and int16.usable(c, *others)


def blocks(N: int, V: int) -> Iterator[slice]:
    """Ranges of words whose (N, words) float32 scores fit SLICE; at least one word each."""
    return _ranges(V, max(1, SLICE // max(1, 4 * N)))


def rows(N: int, most: int = 4096) -> Iterator[slice]:
    """Ranges of at most so many contexts."""
    return _ranges(N, most)


def _ranges(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def scores(c: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """c·W^T + b (N, words), in float32 or better: half-precision rows are widened block by block."""
    if weight.dtype in HALF:
        c, weight, bias = c.float(), weight.float(), bias.float()
    return torch.addmm(bias.view(-1), c, weight.t())


def panels(V: int) -> Iterator[slice]:
    return _ranges(V, PANEL)


def log_z_in_blocks(c: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Exact log Z (N,) holding one block of scores at a time."""
    found = []
    for some in rows(len(c)):
        parts = [log_sum(scores(c[some], weight[b], bias[b])) for b in blocks(len(c[some]), len(weight))]
        found.append(torch.stack(parts, dim=1).logsumexp(1))
    return torch.cat(found) if found else c.new_zeros(0)


def _probabilities(c: Tensor, weight: Tensor, bias: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P (N, V) in the memory of the scores, m(w,c) and log Z."""
    m, place = _all_scores(c, weight, bias), w.unsqueeze(1)
    m_w = m.gather(1, place)
    if _half() or not devices.is_host(c.device):  # no waiting for the device to say whether digits were lost
        top = m.amax(1)
        P = torch.softmax(m, 1, out=m)
        return P, m_w.squeeze(1), top - P.amax(1).log()  # the largest probability is at least 1/V
    P = torch.softmax(m, 1, out=m)
    p_w = P.gather(1, place)
    log_z = (m_w - p_w.log()).squeeze(1)
    lost = (p_w.squeeze(1) < TINY).nonzero().squeeze(1)
    if len(lost):
        log_z[lost] = log_z_in_blocks(c[lost], weight, bias)
    return P, m_w.squeeze(1), log_z


def _all_scores(c: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if _fixed(c, weight, bias):
        return int16.product(c, weight.t(), bias.view(-1))
    m = c.new_empty(len(c), len(weight))
    half = c.bfloat16() if _half() else c
    for b in panels(len(weight)):
        if _half():
            torch.add(half @ weight[b].bfloat16().t(), bias[b].view(-1), out=m[:, b])
        else:
            torch.addmm(bias[b].view(-1), c, weight[b].t(), out=m[:, b])
    return m


def _target(c: Tensor, weight: Tensor, bias: Tensor, w: Tensor) -> Tensor:
    rows_w, bias_w = weight[w].to(c.dtype), bias[w].to(c.dtype)
    return (rows_w * c).sum(1) + bias_w.squeeze(1)


def _without_gradient(c: Tensor, weight: Tensor, bias: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return _target(c, weight, bias, w), log_z_in_blocks(c, weight, bias)


class TargetAndLogZ(torch.autograd.Function):
    """(c (N, d), weight (V, d), bias (V, 1), w (N,)) -> m(w,c) (N,), log Z (N,)."""

    @staticmethod
    def forward(ctx: Any, c: Tensor, weight: Tensor, bias: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        tiles = _half() and amx.usable(c, weight, bias) and amx.kept_bytes(len(c), *weight.shape) <= BUDGET
        fits = len(c) * len(weight) * c.element_size() <= BUDGET
        ctx.kept, ctx.fixed = None, _fixed(c, weight, bias)
        if tiles:
            log_z, ctx.kept = amx.softmax(c, weight, bias)
            m_w = _target(c, weight, bias, w)
        elif fits:
            ctx.kept, m_w, log_z = _probabilities(c, weight, bias, w)
            ctx.kept = ctx.kept.bfloat16() if _half() else ctx.kept
        else:
            m_w, log_z = _without_gradient(c, weight, bias, w)
        ctx.save_for_backward(c, weight, bias, w, log_z)
        return m_w, log_z

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        return _gradients(ctx, *gradients)


@without_autocast
def _gradients(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
    c, weight, bias, w, log_z = ctx.saved_tensors
    g_m, g_z = gradients
    s = g_z.unsqueeze(1)
    if isinstance(ctx.kept, tuple):  # of tiles
        d_c, d_weight, d_bias = amx.softmax_gradient(ctx.kept, c, s, len(weight))
        ctx.kept = None
    elif ctx.kept is not None:
        P, ctx.kept = ctx.kept, None
        scaled, d_weight = c * s, torch.empty_like(weight)
        if ctx.fixed:
            d_weight = int16.product(P.t(), scaled)
            d_c, d_bias = int16.product(P, weight).mul_(s), P.t() @ s
        elif P.dtype == torch.bfloat16:
            d_c, d_bias = _backward_in_half(P, weight, scaled, s, d_weight)
        else:
            for b in panels(len(weight)):
                torch.mm(P[:, b].t(), scaled, out=d_weight[b])
            d_c, d_bias = (P @ weight).mul_(s), P.t() @ s
    else:
        d_c, d_weight, d_bias = _backward_in_blocks(c, weight, bias, log_z, s)
    d_c.addcmul_(weight[w], g_m.unsqueeze(1))
    _add_rows(d_weight, w, c * g_m.unsqueeze(1))
    _add_rows(d_bias, w, g_m.unsqueeze(1))
    return d_c, d_weight, d_bias, None


def _add_rows(table: Tensor, w: Tensor, values: Tensor) -> None:
    """table[w] += values, where w may name a row twice; in the same order every time on any device."""
    if devices.is_host(table.device):
        table.index_add_(0, w, values)
    else:
        table.index_put_((w,), values, accumulate=True)


def _backward_in_half(P: Tensor, weight: Tensor, scaled: Tensor, s: Tensor, d_weight: Tensor) -> tuple[Tensor, Tensor]:
    """The products in bf16, panel by panel, added up in float32; d_weight is filled."""
    d_c, half = torch.zeros_like(scaled), scaled.bfloat16()
    for b in panels(len(weight)):
        d_weight[b] = P[:, b].t() @ half
        d_c += P[:, b] @ weight[b].bfloat16()
    return d_c.mul_(s), (P.t() @ s.bfloat16()).float()


def _backward_in_blocks(
    c: Tensor, weight: Tensor, bias: Tensor, log_z: Tensor, s: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same products with the probabilities made again, block by block."""
    d_c, d_weight, d_bias = torch.zeros_like(c), torch.empty_like(weight), torch.empty_like(bias)
    scaled = c * s
    for b in blocks(len(c), len(weight)):
        P = scores(c, weight[b], bias[b]).sub_(log_z.unsqueeze(1)).exp_()
        d_c.addmm_(P, weight[b])
        torch.mm(P.t(), scaled, out=d_weight[b])
        torch.mm(P.t(), s, out=d_bias[b])
    return d_c.mul_(s), d_weight, d_bias


def target_and_log_z(c: Tensor, weight: Tensor, bias: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """m(w,c) (N,) and log Z (N,); see the module's text."""
    wanted = torch.is_grad_enabled() and any(t.requires_grad for t in (c, weight, bias))
    if not wanted:  # asked here, because a Function does not see whether gradients are switched off
        return _without_gradient(c, weight, bias, w)
    if weight.dtype in HALF:
        weight, bias = weight.float(), bias.float()
    m_w, log_z = TargetAndLogZ.apply(c, weight, bias, w)  # type: ignore[no-untyped-call]
    return m_w, log_z


def log_z_and_mean_score(c: Tensor, weight: Tensor, bias: Tensor, link: Any) -> tuple[Tensor, Tensor]:
    """log Z (N,) and Σ p·m (N,) under p = softmax(m), block by block; `link` is applied to the scores."""
    parts = []
    for b in blocks(len(c), len(weight)):
        parts.append(log_sum_and_mean(link(scores(c, weight[b], bias[b]))))
    log_zs, means = (torch.stack(column, dim=1) for column in zip(*parts, strict=True))
    log_z = log_zs.logsumexp(1)
    return log_z, ((log_zs - log_z.unsqueeze(1)).exp() * means).sum(1)

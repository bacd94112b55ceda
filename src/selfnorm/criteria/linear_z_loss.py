"""The z-loss on hidden states and head, for trainers: the (N, V) logits are never held, and log Z is float32 even for bfloat16.

    loss = linear_z_loss(hidden, lm_head.weight, labels, alpha=1e-4)      # labels already shifted: the next token of each
    loss.total.backward()

Scores are made for some tokens at a time. While they are in memory they become log Z, then the probabilities P, then the gradient

    d total / dm = (P · (1 + 2 · alpha · log Z) - target) / tokens

and that is multiplied at once into the gradients of the hidden states and of the head. So each score is made once, and the
backward pass only multiplies by what comes from above.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from selfnorm.criteria.z_loss import ZLoss, checked, divisor

HELD = 1 << 26  # bytes of scores held at a time,
LEAST = 128  # but at least so many tokens: fewer make the products slow
PANEL = 8192  # rows of a half-precision head that are widened at a time


def linear_z_loss(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    alpha: float = 1e-4,
    bias: Tensor | None = None,
    scale: float = 1.0,
    cap: float | None = None,
    tokens: float | Tensor | None = None,
    ignore_index: int = -100,
) -> ZLoss:
    """Cross-entropy and alpha · (log Z)² of a linear head, without its logits.

    hidden (..., d), weight (V, d), bias (V,), labels (...): the token that follows each hidden state, `ignore_index` where it
    does not count. Scores are cap · tanh(scale · (w·c + b) / cap), or scale · (w·c + b) without a cap. `tokens` as for z_loss.
    Only `total` has gradients; fit and penalty are for reporting.

    >>> weight, labels = torch.zeros(4, 8), torch.zeros(2, 3, dtype=torch.long)
    >>> loss = linear_z_loss(torch.zeros(2, 3, 8), weight, labels, alpha=1.0)
    >>> round(float(loss.fit), 4), round(float(loss.penalty), 4)     # log 4 and (log 4)²
    (1.3863, 1.9218)
    """
    if (
        weight.dim() != 2
        or hidden.shape[-1] != weight.shape[1]
        or (bias is not None and bias.shape != weight.shape[:1])
    ):
        raise ValueError(
            f"hidden (..., d), weight (V, d) and bias (V,) were expected; found hidden {tuple(hidden.shape)}, "
            f"weight {tuple(weight.shape)}" + ("" if bias is None else f", bias {tuple(bias.shape)}")
        )
    if not scale > 0 or (cap is not None and not cap > 0):
        raise ValueError(f"scale = {scale}, cap = {cap}: both must be above 0")
    real, wanted = checked(hidden, labels, len(weight), alpha, ignore_index, tokens, "mean")
    count = divisor(real, tokens, "mean")
    learning = torch.is_grad_enabled()
    wants = (
        learning and hidden.requires_grad,
        learning and weight.requires_grad,
        learning and bias is not None and bias.requires_grad,
    )
    flat = hidden.reshape(-1, hidden.shape[-1])
    share = real.reshape(-1).to(torch.float32) / count
    total, fit, penalty, log_z = _LinearZLoss.apply(  # type: ignore[no-untyped-call]
        flat, weight, bias, wanted.reshape(-1), share, alpha, scale, cap, wants
    )
    return ZLoss(total, fit.detach(), penalty.detach(), log_z.detach().view(labels.shape), real)


class _LinearZLoss(torch.autograd.Function):
    """(hidden (N, d), weight, bias, labels (N,), share (N,) of each token in the mean, …) -> total, fit, penalty, log Z (N,)."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, share: Tensor,
        alpha: float, scale: float, cap: float | None, wants: tuple[bool, bool, bool],
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
        ctx.how, ctx.kinds = (
            (alpha, scale, cap, wants),
            [None if x is None else x.dtype for x in (hidden, weight, bias)],
        )
        ctx.save_for_backward(hidden, weight, bias, labels, share)
        with torch.autocast(hidden.device.type, enabled=False):
            m, log_z, ctx.gradients = _pass(hidden, weight, bias, labels, share, *ctx.how)
        share = share.to(log_z.dtype)
        counts = share > 0
        fit = torch.where(counts, (log_z - m) * share, 0.0).sum()
        penalty = alpha * torch.where(counts, log_z**2 * share, 0.0).sum()
        ctx.mark_non_differentiable(fit, penalty, log_z)
        return fit + penalty, fit, penalty, log_z

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Any, ...]:
        gradients, ctx.gradients = ctx.gradients, None  # given away: they are as large as the head
        if gradients is None:  # asked for again, so made again
            with torch.autocast(upstream[0].device.type, enabled=False):
                gradients = _pass(*ctx.saved_tensors, *ctx.how)[2]
        # Rounded to the inputs' types last: a loss scale is there to keep small gradients out of float16's underflow.
        pairs = zip(gradients, ctx.kinds, strict=True)
        found = [None if g is None else g.mul_(upstream[0].to(g.dtype)).to(kind) for g, kind in pairs]
        return (*found, None, None, None, None, None, None)


def _pass(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, share: Tensor,
    alpha: float, scale: float, cap: float | None, wants: tuple[bool, bool, bool],
) -> tuple[Tensor, Tensor, list[Tensor | None]]:  # fmt: skip
    """m of the labels, log Z, and the wanted gradients of hidden, weight and bias, not rounded: one walk over the tokens."""
    N, V = len(hidden), len(weight)
    kind = torch.float64 if torch.float64 in (hidden.dtype, weight.dtype) else torch.float32
    size = max(LEAST, HELD // (4 * V))
    d_hidden = torch.empty(hidden.shape, dtype=kind, device=hidden.device) if wants[0] else None
    d_weight = torch.zeros(weight.shape, dtype=kind, device=weight.device) if wants[1] else None
    d_bias = torch.zeros(V, dtype=kind, device=weight.device) if wants[2] else None
    targets, log_zs = [], []
    room = torch.empty(min(N, size), V, dtype=kind, device=hidden.device)
    for at in range(0, N, size):
        part, w = share[at : at + size].to(kind).unsqueeze(1), labels[at : at + size].unsqueeze(1)
        c = torch.where(part > 0, hidden[at : at + size].to(kind), 0.0)  # what is masked may be anything
        scores = _scores(c, weight, bias, room[: len(c)], scale, cap)
        slope = None if cap is None or not any(wants) else 1 - (scores / cap) ** 2
        targets.append(scores.gather(1, w))
        top = scores.amax(1, keepdim=True)
        total = scores.sub_(top).exp_().sum(1, keepdim=True)
        log_zs.append(total.log() + top)
        if not any(wants):
            continue
        gradient = scores.mul_(part * (1 + 2 * alpha * log_zs[-1]) / total)
        gradient.scatter_add_(1, w, -part)
        if slope is not None:
            gradient.mul_(slope)
        if scale != 1:
            gradient.mul_(scale)
        if d_hidden is not None:
            d_hidden[at : at + size] = _times(gradient, weight)
        if d_weight is not None:
            d_weight.addmm_(gradient.t(), c)
        if d_bias is not None:
            d_bias += gradient.sum(0)
    gradients = [d_hidden, d_weight, d_bias]
    if not targets:
        return share.new_zeros(0), share.new_zeros(0), gradients
    return torch.cat(targets).squeeze(1), torch.cat(log_zs).squeeze(1), gradients


def _scores(c: Tensor, weight: Tensor, bias: Tensor | None, room: Tensor, scale: float, cap: float | None) -> Tensor:
    """The scores (n, V) of some tokens, in `room`; a head of less precision is widened some rows at a time."""
    if weight.dtype == c.dtype:
        torch.mm(c, weight.t(), out=room)
    else:
        for at in range(0, len(weight), PANEL):
            room[:, at : at + PANEL] = c @ weight[at : at + PANEL].to(c.dtype).t()
    if bias is not None:
        room += bias.to(c.dtype)
    if cap is not None:
        return room.mul_(scale / cap).tanh_().mul_(cap)
    return room.mul_(scale) if scale != 1 else room


def _times(gradient: Tensor, weight: Tensor) -> Tensor:
    """gradient (n, V) times the rows (V, d)."""
    if weight.dtype == gradient.dtype:
        return gradient @ weight
    result = gradient.new_zeros(len(gradient), weight.shape[1])
    for at in range(0, len(weight), PANEL):
        result.addmm_(gradient[:, at : at + PANEL], weight[at : at + PANEL].to(gradient.dtype))
    return result

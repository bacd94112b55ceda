"""The target's score and the exact log Z from one pass over the scores, with memory bounded by a budget.

Plain autograd walks over the (N, V) scores about ten times. Here the forward pass overwrites them in place
with E = exp(m - max), and the backward pass never touches E except inside the two products it cannot avoid:

    d log Z / dc = diag(s) (E·W),    d log Z / dW = Eᵀ·(diag(s) c),    s = upstream gradient / Σ E

so scaling happens on the small (N, d) side. If E does not fit the budget it is made again, slice by slice.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

BUDGET = 1 << 30  # bytes of scores that may be kept between forward and backward
SLICE = 1 << 26  # bytes of scores held at a time when they are not kept


def slices(N: int, V: int, size: int, budget: int) -> list[slice]:
    """Row ranges whose (rows, V) scores of `size` bytes each fit the budget; at least one row each."""
    rows = max(1, min(N, budget // max(1, V * size)))
    return [slice(start, min(start + rows, N)) for start in range(0, N, rows)]


def scores(c: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.addmm(bias.view(-1), c, weight.t())


def exponentials(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Overwrite m with E = exp(m - max); give E, its row sums and log Z."""
    top = m.amax(dim=1, keepdim=True)
    E = m.sub_(top).exp_()
    total = E.sum(dim=1)
    return E, total, total.log() + top.squeeze(1)


class TargetAndLogZ(torch.autograd.Function):
    """(c (N, d), weight (V, d), bias (V, 1), w (N,)) -> m(w,c) (N,), log Z (N,)."""

    @staticmethod
    def forward(ctx: Any, c: Tensor, weight: Tensor, bias: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        N, V = len(c), len(weight)
        keep = any(ctx.needs_input_grad) and N * V * c.element_size() <= BUDGET
        m_w, log_z = c.new_empty(N), c.new_empty(N)
        ctx.parts, ctx.kept = slices(N, V, c.element_size(), BUDGET if keep else SLICE), []
        for part in ctx.parts:
            m = scores(c[part], weight, bias)
            m_w[part] = m.gather(1, w[part].unsqueeze(1)).squeeze(1)
            E, total, log_z[part] = exponentials(m)
            if keep:
                ctx.kept.append((E, total))
        ctx.save_for_backward(c, weight, bias, w)
        return m_w, log_z

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        c, weight, bias, w = ctx.saved_tensors
        g_m, g_z = gradients
        d_c, d_weight, d_bias = torch.empty_like(c), torch.zeros_like(weight), torch.zeros_like(bias)
        for index, part in enumerate(ctx.parts):
            E, total = ctx.kept[index] if ctx.kept else exponentials(scores(c[part], weight, bias))[:2]
            s = (g_z[part] / total).unsqueeze(1)
            torch.mm(E, weight, out=d_c[part])
            d_c[part] *= s
            d_weight.addmm_(E.t(), c[part] * s)
            d_bias.addmm_(E.t(), s)
        ctx.kept = []
        d_c.addcmul_(weight[w], g_m.unsqueeze(1))
        d_weight.index_add_(0, w, c * g_m.unsqueeze(1))
        d_bias.index_add_(0, w, g_m.unsqueeze(1))
        return d_c, d_weight, d_bias, None


def target_and_log_z(c: Tensor, weight: Tensor, bias: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The function above with its types; see the module's text."""
    m_w, log_z = TargetAndLogZ.apply(c, weight, bias, w)  # type: ignore[no-untyped-call]
    return m_w, log_z

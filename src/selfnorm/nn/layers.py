"""What the C kernels for training have in common: which tensors they take, and an LSTM layer with its gradients."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

WIDTH = 32  # rows of gates have a multiple of so many numbers


class Call(Protocol):
    """Calls the function `lstm` or `lstm_gradient` of a library."""

    def __call__(self, name: str, *arguments: Tensor | int) -> None: ...


def plain(*tensors: Tensor) -> bool:
    """Are these float32 tensors of the CPU?"""
    return all(t.device.type == "cpu" and t.dtype == torch.float32 for t in tensors)


def up(size: int) -> int:
    """The next multiple of WIDTH."""
    return -(-size // WIDTH) * WIDTH


def lstm(
    call: Call, layer: nn.LSTM, x: Tensor, state: tuple[Tensor, ...] | None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """What the layer does to x (T, B, d); no gradient goes into the state before the window. Empty windows are left to torch."""
    if not x.numel():
        return layer(x, state)  # type: ignore[no-any-return]
    zeros = x.new_zeros(x.shape[1:])
    h, c = (zeros, zeros) if state is None else (part[0].detach().contiguous() for part in state)
    y, cells = Lstm.apply(call, x.contiguous(), *layer.all_weights[0], h, c)  # type: ignore[no-untyped-call]
    return y, (y[-1:].detach(), cells[-1:])


class Lstm(torch.autograd.Function):
    """(x (T, B, d), weights (4d, d), biases (4d), h and c (B, d)) -> y (T, B, d), cells (T, B, d)."""

    @staticmethod
    def forward(
        ctx: Any, call: Call, x: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        T, B, d = x.shape
        y, cells, gates = torch.empty_like(x), torch.empty_like(x), x.new_empty(T * B, up(4 * d))
        call("lstm", T, B, d, x, w_x, w_h, b_x + b_h, h, c, y, gates, gates.stride(0), cells)
        ctx.call = call
        ctx.save_for_backward(x, w_x, w_h, h, c, y, gates, cells)
        ctx.mark_non_differentiable(cells)
        return y, cells

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, w_x, w_h, h, c, y, gates, cells = ctx.saved_tensors
        dy, (T, B, d) = gradients[0].contiguous(), x.shape
        dx, d_wx, d_wh, d_b = torch.empty_like(x), torch.empty_like(w_x), torch.empty_like(w_h), x.new_empty(4 * d)
        saved = (x, w_x, w_h, h, c, y, gates, gates.stride(0), cells)
        ctx.call("lstm_gradient", T, B, d, *saved, dy, dx, d_wx, d_wh, d_b)
        return None, dx, d_wx, d_wh, d_b, d_b.clone(), None, None

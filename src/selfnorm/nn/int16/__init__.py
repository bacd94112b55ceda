"""Matrix products and LSTM layers in fixed point, for training on CPUs with AVX2; the C code is beside this file.

Used if `training.precision` is "int16", the CPU has AVX2 and there is a C compiler. benchmarks/precision.py compares training
steps with those in float32.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selfnorm._util.isa import vector_flags
from selfnorm._util.native import call, compile_library


@cache
def library() -> ctypes.CDLL | None:
    """The kernels, or None where they cannot be used."""
    source, flags = Path(__file__).with_name("kernels.c"), vector_flags()
    return compile_library(source, *flags, wished=("-fopenmp",)) if flags else None


def usable(*tensors: Tensor) -> bool:
    """Are these float32 tensors of the CPU, and can it take them?"""
    return all(t.device.type == "cpu" and t.dtype == torch.float32 for t in tensors) and library() is not None


def product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """a (M, K) · b (K, N) + bias (N,)."""
    (M, K), N = a.shape, b.shape[1]
    bias = None if bias is None else bias.contiguous()
    if 0 in (M, N, K):
        return a @ b if bias is None else torch.addmm(bias, a, b)
    C = a.new_empty(M, N)
    _call("int16_product", M, N, K, *_stored(a), *_stored(b), bias, C, N)
    return C


def _stored(x: Tensor) -> tuple[int, Tensor, int]:
    """Is it stored the other way round; as it is stored; numbers from row to row."""
    turned = x.stride(0) == 1 and x.stride(1) >= len(x) > 1
    rows = x.t() if turned else x
    rows = rows if rows.is_contiguous() else rows.contiguous()
    return int(turned), rows, rows.shape[1]


def lstm(layer: nn.LSTM, x: Tensor, state: tuple[Tensor, ...] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """What the layer does to x (T, B, d); no gradient goes into the state before the window."""
    zeros = x.new_zeros(x.shape[1:])
    h, c = (zeros, zeros) if state is None else (part[0].detach().contiguous() for part in state)
    y, cells = Lstm.apply(x.contiguous(), *layer.all_weights[0], h, c)  # type: ignore[no-untyped-call]
    return y, (y[-1:].detach(), cells[-1:])


class Lstm(torch.autograd.Function):
    """(x (T, B, d), weights (4d, d), biases (4d), h and c (B, d)) -> y (T, B, d), cells (T, B, d)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        T, B, d = x.shape
        y, cells, gates = torch.empty_like(x), torch.empty_like(x), x.new_empty(T * B, 4 * d)
        _call("int16_lstm", T, B, d, x, w_x, w_h, b_x + b_h, h, c, y, gates, gates.stride(0), cells)
        ctx.save_for_backward(x, w_x, w_h, h, c, y, gates, cells)
        ctx.mark_non_differentiable(cells)
        return y, cells

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, w_x, w_h, h, c, y, gates, cells = ctx.saved_tensors
        dy, (T, B, d) = gradients[0].contiguous(), x.shape
        dx, d_wx, d_wh, d_b = torch.empty_like(x), torch.empty_like(w_x), torch.empty_like(w_h), x.new_empty(4 * d)
        saved = (x, w_x, w_h, h, c, y, gates, gates.stride(0), cells)
        _call("int16_lstm_gradient", T, B, d, *saved, dy, dx, d_wx, d_wh, d_b)
        return dx, d_wx, d_wh, d_b, d_b.clone(), None, None


def _call(name: str, *arguments: Tensor | int | None) -> None:
    kernels = library()
    assert kernels is not None
    call(kernels, name, torch.get_num_threads(), *arguments)

"""Matrix products and LSTM layers in fixed point, for training on CPUs with AVX2 or AVX-512; the C code is beside this file.

Used if `training.precision` is "int16", the CPU has AVX2 and there is a C compiler. AVX-512 with VNNI is used where the CPU and
the compiler have it. benchmarks/precision.py compares training steps with those in float32.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from selfnorm._util.isa import short_flags, vector_flags
from selfnorm._util.native import call, compile_library
from selfnorm.nn import layers


@cache
def library() -> ctypes.CDLL | None:
    """The kernels, or None where they cannot be used."""
    flags, short, threads = vector_flags(), short_flags(), ("-fopenmp",)
    if not flags:
        return None
    wished = [(*short, *threads), short, threads] if short else [threads]
    return compile_library(Path(__file__).with_name("kernels.c"), *flags, "-ffp-contract=fast", wished=wished)


def usable(*tensors: Tensor) -> bool:
    """Are these float32 tensors of the CPU, and can it take them?"""
    return layers.plain(*tensors) and library() is not None


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
    """What the layer does to x (T, B, d)."""
    return layers.lstm(lambda name, *arguments: _call(f"int16_{name}", *arguments), layer, x, state)


def _call(name: str, *arguments: Tensor | int | None) -> None:
    kernels = library()
    assert kernels is not None
    call(kernels, name, torch.get_num_threads(), *arguments)

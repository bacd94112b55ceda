"""LSTM layers and the softmax in bf16 on the matrix tiles (AMX) of a CPU, for training; the C code is beside this file.

benchmarks/precision.py compares training steps with those in float32. Used if `training.precision` is "bf16", the
CPU has AMX and there is a C compiler. SELFNORM_AMX=0 switches it off.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from selfnorm._util.isa import uses_tiles
from selfnorm._util.native import call, compile_library
from selfnorm.nn import layers
from selfnorm.nn.layers import up

UNITS = ("amx-tile", "amx-bf16", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512bf16", "fma", "prfchw")
FLAGS = tuple(f"-m{unit}" for unit in UNITS)


@cache
def library() -> ctypes.CDLL | None:
    """The kernels, or None where they cannot or shall not be used."""
    if not uses_tiles():
        return None
    kernels = compile_library(Path(__file__).with_name("kernels.c"), *FLAGS)
    return kernels if kernels is not None and kernels.amx_enable() else None


def usable(*tensors: Tensor) -> bool:
    """Are these float32 tensors of the CPU, and has it the tiles?"""
    return layers.plain(*tensors) and library() is not None


Kept = tuple[Tensor, Tensor, Tensor, Tensor]


def kept_bytes(N: int, V: int, d: int) -> int:
    """What `softmax` keeps for its gradient: twice the probabilities, and the rows."""
    return 2 * up(V) * (2 * up(N) + up(d)) + 4 * N


def softmax(c: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Kept]:
    """Exact log Z (N,) of contexts c (N, d) over rows (V, d), and what its gradient needs.

    Kept are the probabilities by context and by word, up to a factor for each context, and the rows, all in bf16.
    """
    (N, d), V = c.shape, len(weight)
    log_z, factor, wide, deep = c.new_empty(N), c.new_empty(N), up(V), up(N)
    sizes = ((wide // 32, deep, 32), (wide, deep), (up(d), wide))
    by_context, by_word, rows = (c.new_empty(size, dtype=torch.bfloat16) for size in sizes)
    kept = (factor, by_context, by_word, rows)
    _call("amx_softmax", N, V, d, c.contiguous(), weight.contiguous(), bias.reshape(-1), log_z, *kept)
    return log_z, kept


def softmax_gradient(kept: Kept, c: Tensor, s: Tensor, V: int) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of s·log Z by c (N, d), the rows (V, d) and the biases (V, 1), for s (N, 1)."""
    N, d = c.shape
    d_c, d_weight, d_bias = c.new_empty(N, d), c.new_empty(V, d), c.new_empty(V, 1)
    factor, *rest = kept
    s = s * factor.view(-1, 1)
    _call("amx_softmax_gradient", N, V, d, (c * s).contiguous(), s.view(-1), *rest, d_c, d_weight, d_bias.view(-1))
    return d_c.mul_(s), d_weight, d_bias


def lstm(layer: nn.LSTM, x: Tensor, state: tuple[Tensor, ...] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """What the layer does to x (T, B, d)."""
    return layers.lstm(lambda name, *arguments: _call(f"amx_{name}", *arguments), layer, x, state)


def _call(name: str, *arguments: Tensor | int) -> None:
    kernels = library()
    assert kernels is not None
    call(kernels, name, *arguments)

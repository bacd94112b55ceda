"""Products of int8 matrices: balanced channels, a scale for each row, exact integer sums."""

from __future__ import annotations

import torch
from torch import Tensor


def balance(rows: Tensor, largest: Tensor) -> Tensor:
    """The factor s (d,) of each column: rows·s and c/s use their eight bits alike, s_j = max|c_j|^½ / max|W_j|^½."""
    return (largest.clamp(min=1e-12) / rows.abs().amax(0).clamp(min=1e-12)).sqrt()


def quantize_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """int8 rows (n, d) and the scale of each (n,): rows ≈ int8 · scale."""
    scale = rows.abs().amax(1).clamp(min=1e-12) / 127
    return (rows / scale.unsqueeze(1)).round_().to(torch.int8), scale


def int8_scores(c: Tensor, rows: Tensor, row_scale: Tensor) -> Tensor:
    """c·rowsᵀ (n, V) with both sides in eight bits; c is quantized here, with a scale for each context."""
    quantized, scale = quantize_rows(c.float())
    return integer_product(quantized, rows).mul_(scale.unsqueeze(1)).mul_(row_scale)


def integer_product(one: Tensor, two: Tensor) -> Tensor:
    """one·twoᵀ of int8 matrices as float32, every sum exact: no 16-bit saturation on any processor."""
    n = len(one)
    if n <= 16:  # torch._int_mm takes more rows than that
        one = torch.cat([one, one.new_zeros(17 - n, one.shape[1])])
    return torch._int_mm(one, two.t())[:n].float()

"""Reductions over scores (n, V): log-sum-exp, mean score, largest words. The C code is beside this file.

torch makes several passes over the scores for each of these. For estimates of log Z its topk and its gathered rows took longer
in batches than the exact sum. Where there is no C compiler, on other devices, in other types than float32 and where gradients
are wanted, torch's operations are used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from selfnorm._util.isa import vector_flags
from selfnorm._util.native import call, compile_library

LEAST = 8  # contexts a thread should have


@cache
def library() -> ctypes.CDLL | None:
    """The C code, or None where it cannot be compiled."""
    return compile_library(Path(__file__).with_name("kernels.c"), *vector_flags())


def _usable(*tensors: Tensor) -> ctypes.CDLL | None:
    """The C code if it can take these tensors and no gradient is wanted."""
    plain = all(t.device.type == "cpu" and t.dtype == torch.float32 and t.is_contiguous() for t in tensors)
    wanted = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return library() if plain and not wanted else None


def in_threads(work: Callable[[slice], None], m: Tensor) -> None:
    """Do work(rows) for all rows of m. Where our C code does it, which uses one thread, they are divided among torch's threads."""
    n = len(m)
    count = min(torch.get_num_threads(), n // LEAST) if _usable(m) is not None else 1
    if count < 2:
        return work(slice(0, n))
    size = -(-n // count)
    mode = torch.inference_mode if torch.is_inference_mode_enabled() else torch.no_grad  # each thread has its own

    def part(start: int) -> None:
        with mode():
            work(slice(start, min(start + size, n)))

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(part, range(0, n, size)))


def top_words(m: Tensor, count: int) -> Tensor:
    """The words (n, count) with the largest of the scores m (n, V), in no particular order; what is not a number comes last."""
    kernels = _usable(m)
    if kernels is None:
        return m.topk(count, dim=1, sorted=False).indices
    _require(count <= m.shape[1], f"{count} words of {m.shape[1]}")
    words = m.new_empty(len(m), count, dtype=torch.int64)
    call(kernels, "top_words", *m.shape, count, m, words)
    return words


def row_scores(rows: Tensor, bias: Tensor, c: Tensor, words: Tensor) -> Tensor:
    """w·c + b_w (n, k) of each context's own words (n, k), for rows (V, d) and c (n, d): no (n, k, d) tensor is held."""
    bias, c = bias.reshape(-1), c.float().contiguous()
    scores = c.new_empty(words.shape)
    kernels = _usable(rows, bias, c)
    if kernels is not None:
        fits = c.shape[1] == rows.shape[1] and len(bias) == len(rows) and len(words) == len(c)
        _require(
            fits and words.dtype == torch.int64,
            f"rows {rows.shape}, bias {bias.shape}, contexts {c.shape}, {words.dtype}",
        )
        call(kernels, "row_scores", len(c), *rows.shape, words.shape[1], rows, bias, c, words.contiguous(), scores)
        return scores
    for row, (one, w) in enumerate(zip(c, words, strict=True)):
        torch.mv(rows.index_select(0, w).float(), one, out=scores[row])
    return scores.add_(bias[words].float())


def log_sum(m: Tensor) -> Tensor:
    """log Σ e^m (n,) over scores m (n, V)."""
    kernels = _usable(m)
    if kernels is None:
        return m.logsumexp(1)
    log_z = m.new_empty(len(m))
    in_threads(lambda some: _log_sums(kernels, m[some], log_z[some]), m)
    return log_z


def log_sum_and_mean(m: Tensor) -> tuple[Tensor, Tensor]:
    """log Z = log Σ e^m (n,) over scores m (n, V), and the mean score Σ p·m (n,) under p = e^m / Z."""
    kernels = _usable(m)
    if kernels is None:
        log_z = m.logsumexp(1)
        p = (m - log_z.unsqueeze(1)).exp()
        return log_z, torch.where(p > 0, p * m, 0.0).sum(1)  # an impossible word, with m = -inf, adds nothing
    log_z, mean = m.new_empty(len(m)), m.new_empty(len(m))
    in_threads(lambda some: _log_sums(kernels, m[some], log_z[some], mean=mean[some]), m)
    return log_z, mean


def log_sum_replaced(m: Tensor, words: Tensor, exact: Tensor) -> Tensor:
    """log Σ e^m (n,) over the scores m (n, V), after those of `words` (n, k) are replaced by `exact` (n, k); m is changed."""
    kernels = _usable(m, exact)
    if kernels is None:
        return m.scatter_(1, words, exact).logsumexp(1)
    fits = words.shape == exact.shape and len(words) == len(m) and words.dtype == torch.int64
    _require(fits, f"scores {m.shape}, words {words.shape} {words.dtype}, exact {exact.shape}")
    log_z = m.new_empty(len(m))
    _log_sums(kernels, m, log_z, words.contiguous(), exact)
    return log_z


def _log_sums(
    kernels: ctypes.CDLL,
    m: Tensor,
    log_z: Tensor,
    words: Tensor | None = None,
    exact: Tensor | None = None,
    mean: Tensor | None = None,
) -> None:
    call(kernels, "log_sums", *m.shape, 0 if words is None else words.shape[1], m, words, exact, log_z, mean)


def scaled(sums: Tensor, scale: Tensor, row_scale: Tensor, offset: Tensor) -> Tensor:
    """sums (n, V) · scale (n) · row_scale (V) + offset (V), in one pass if the sums are int32."""
    kernels = _usable(scale, row_scale, offset)
    if kernels is None or sums.dtype != torch.int32:
        return sums.float().mul_(scale.unsqueeze(1)).mul_(row_scale).add_(offset)
    _require(
        sums.shape == (len(scale), len(row_scale)) and row_scale.shape == offset.shape,
        f"sums {sums.shape}, scales {scale.shape} and {row_scale.shape}, offset {offset.shape}",
    )
    sums, m = sums.contiguous(), scale.new_empty(sums.shape)
    in_threads(
        lambda some: call(kernels, "scaled", *m[some].shape, sums[some], scale[some], row_scale, offset, m[some]), m
    )
    return m


def _require(true: bool, found: str) -> None:
    """The C code reads by address: what does not fit must not reach it."""
    if not true:
        raise ValueError(f"these do not fit each other: {found}")

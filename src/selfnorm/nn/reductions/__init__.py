"""What follows the product that makes scores (n, V): log-sum-exp, the mean score, the largest. The C code is beside this file.

torch makes several passes over the scores for each of these. For estimates of log Z its topk and its gathered rows took longer
in batches than the exact sum. Where there is no C compiler, and on other devices, torch's operations are used.
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


def in_threads(work: Callable[[slice], None], n: int) -> None:
    """Do work(rows) for all n rows, which are divided among as many threads as torch has: our C code uses one each."""
    count = min(torch.get_num_threads(), n // LEAST) if library() else 1
    if count < 2:
        return work(slice(0, n))
    size = -(-n // count)

    def part(start: int) -> None:
        with torch.no_grad():  # which every thread decides for itself
            work(slice(start, min(start + size, n)))

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(part, range(0, n, size)))


def top_words(m: Tensor, count: int) -> Tensor:
    """The words (n, count) with the largest of the scores m (n, V), in no particular order."""
    kernels = _usable(m)
    if kernels is None:
        return m.topk(count, dim=1, sorted=False).indices
    words = torch.empty(len(m), count, dtype=torch.int64)
    call(kernels, "top_words", *m.shape, count, m, words)
    return words


def row_scores(rows: Tensor, bias: Tensor, c: Tensor, words: Tensor) -> Tensor:
    """w·c + b_w (n, k) of each context's own words (n, k), for rows (V, d) and c (n, d): no (n, k, d) tensor is held."""
    bias, c = bias.reshape(-1), c.float().contiguous()
    scores = c.new_empty(words.shape, dtype=torch.float32)
    kernels = _usable(rows, bias, c)
    if kernels is not None:
        call(kernels, "row_scores", len(c), *rows.shape, words.shape[1], rows, bias, c, words.contiguous(), scores)
        return scores
    for row, (one, w) in enumerate(zip(c, words, strict=True)):
        torch.mv(rows.index_select(0, w).float(), one, out=scores[row])
    return scores.add_(bias[words].float())


def log_sum(m: Tensor) -> Tensor:
    """log Σ e^m (n,) over scores m (n, V), which may be changed."""
    kernels = _usable(m)
    if kernels is not None:
        return _log_sums(kernels, m, None, None)[0]
    top = m.amax(dim=1, keepdim=True)
    return m.sub_(top).exp_().sum(dim=1).log_() + top.squeeze(1)


def log_sum_and_mean(m: Tensor) -> tuple[Tensor, Tensor]:
    """log Z = log Σ e^m (n,) over scores m (n, V), and the mean score Σ p·m (n,) under p = e^m / Z."""
    kernels = _usable(m)
    if kernels is not None:
        return _log_sums(kernels, m, None, None, torch.empty(len(m)))
    log_z = m.logsumexp(1)
    return log_z, torch.einsum("nv,nv->n", (m - log_z.unsqueeze(1)).exp_(), m)


def log_sum_replaced(m: Tensor, words: Tensor, exact: Tensor) -> Tensor:
    """log Σ e^m (n,) over the scores m (n, V), after those of `words` (n, k) are replaced by `exact` (n, k); m is changed."""
    kernels = _usable(m, exact)
    if kernels is None:
        return m.scatter_(1, words, exact).logsumexp(1)
    return _log_sums(kernels, m, words.contiguous(), exact)[0]


def _log_sums(
    kernels: ctypes.CDLL, m: Tensor, words: Tensor | None, exact: Tensor | None, mean: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    log_z = torch.empty(len(m))

    def part(some: slice) -> None:
        w, e, mu = (None if t is None else t[some] for t in (words, exact, mean))
        call(kernels, "log_sums", *m[some].shape, 0 if w is None else w.shape[1], m[some], w, e, log_z[some], mu)

    in_threads(part, len(m))
    return log_z, log_z if mean is None else mean


def scaled(sums: Tensor, scale: Tensor, row_scale: Tensor, offset: Tensor) -> Tensor:
    """sums (n, V) · scale (n) · row_scale (V) + offset (V), in one pass if the sums are int32."""
    kernels = _usable(scale, row_scale, offset)
    if kernels is None or sums.dtype != torch.int32:
        return sums.float().mul_(scale.unsqueeze(1)).mul_(row_scale).add_(offset)
    m = torch.empty(sums.shape)
    call(kernels, "scaled", *sums.shape, sums.contiguous(), scale, row_scale, offset, m)
    return m

"""Means, spreads and correlations from block sums, with block-bootstrap intervals.

log Z of neighbouring contexts is correlated, so resampling single words would give intervals that are too
narrow. Sums over blocks of consecutive words are kept instead; they are small, exact and mergeable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BLOCK = 500  # words
COLUMNS = ("words", "log_z", "log_z2", "nll", "h", "h2", "h_log_z")


def block_sums(log_z: Array, nll: Array, h: Array) -> Array:
    """(blocks, 7) sums over consecutive words, float64; log Z centred by the caller stays centred."""
    columns = np.stack([np.ones_like(log_z), log_z, log_z**2, nll, h, h**2, h * log_z])
    edges = np.arange(0, len(log_z), max(1, min(BLOCK, len(log_z) // 20)))  # a short text still has twenty blocks
    return np.add.reduceat(columns, edges, axis=1).T


def mu_z(s: Array) -> Array:
    return s[..., 1] / s[..., 0]


def sigma_z(s: Array) -> Array:
    return np.sqrt(np.maximum(s[..., 2] / s[..., 0] - mu_z(s) ** 2, 0))


def perplexity(s: Array) -> Array:
    return _exp(s[..., 3] / s[..., 0])


def u_perplexity(s: Array) -> Array:
    """With m taken as if it were log p: log u_perp = log perp - mu_z."""
    return _exp(s[..., 3] / s[..., 0] - mu_z(s))


def _exp(x: Array) -> Array:
    with np.errstate(over="ignore"):  # a model that diverged has an infinite perplexity, not a warning
        return np.exp(x)


def correlation(s: Array) -> Array:
    """Pearson's correlation of entropy and log Z; 0 where either does not vary."""
    n = s[..., 0]
    covariance = s[..., 6] / n - (s[..., 4] / n) * mu_z(s)
    spread = np.sqrt(np.maximum(s[..., 5] / n - (s[..., 4] / n) ** 2, 0)) * sigma_z(s)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 0, covariance / spread, 0.0)


NUMBERS: dict[str, Callable[[Array], Array]] = {
    "mu_z": mu_z,
    "sigma_z": sigma_z,
    "perplexity": perplexity,
    "u_perplexity": u_perplexity,
    "correlation": correlation,
}


def numbers(sums: Array) -> dict[str, float]:
    total = sums.sum(axis=0)
    return {name: float(number(total)) for name, number in NUMBERS.items()}


def intervals(sums: Array, seed: int = 0, resamples: int = 2000, level: float = 0.95) -> dict[str, tuple[float, float]]:
    """Percentile intervals from resampling whole blocks with replacement."""
    totals = _resampled(len(sums), seed, resamples) @ sums
    return {name: _tails(number(totals), level) for name, number in NUMBERS.items()}


def differences(
    sums: Array, reference: Array, seed: int = 0, resamples: int = 2000, level: float = 0.95
) -> dict[str, tuple[float, float, float]]:
    """What a model has beyond another on the same text, with the interval: (difference, low, high).

    Both are resampled with the same blocks, so that what makes a passage hard for every model cancels. Perplexities
    are compared as shares: 0.02 is two percent more.
    """
    weights = np.vstack([np.ones(len(sums)), _resampled(len(sums), seed, resamples)])
    totals, others = weights @ sums, weights @ reference
    found = {}
    for name in ("perplexity", "sigma_z"):
        mine, its = NUMBERS[name](totals), NUMBERS[name](others)
        gap = mine / its - 1 if name == "perplexity" else mine - its
        found[name] = (float(gap[0]), *_tails(gap[1:], level))
    return found


def merged(sums: Array, most: int = 200) -> Array:
    """The same sums over fewer, longer blocks: small enough to be stored with the numbers."""
    each = -(-len(sums) // most)
    return np.add.reduceat(sums, np.arange(0, len(sums), each), axis=0)


@lru_cache(maxsize=8)
def _resampled(blocks: int, seed: int, resamples: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1 / blocks), size=resamples)


def _tails(values: Array, level: float) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)

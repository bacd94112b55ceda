"""How sure is the 1-best: posteriors of the hypotheses of a list, and of the words of the best one.

    p(h) = exp(total(h) / T) / Σ exp(total(h') / T)

Totals are not log probabilities: the temperature T is found on a development set, so that stated confidences come true. A word's
confidence is the posterior of all hypotheses that have the same word at the place aligned to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from selfnorm._util.errors import missing_extra
from selfnorm.tasks.rescoring import Array, Table, Weights
from selfnorm.tasks.wer import Counts

BINS = 10


def posteriors(totals: Array, temperature: float = 1.0) -> Array:
    """Softmax of totals / temperature."""
    scaled = np.exp((totals - totals.max()) / temperature)
    shares: Array = scaled / scaled.sum()
    return shares


def fit_temperature(tables: Sequence[Table], counts: Sequence[Counts], weights: Weights) -> float:
    """The temperature under which the hypotheses with the fewest errors are most probable, over all lists."""
    totals = [weights.total(t.rows) for t in tables]
    best = [c == c.min() for c in counts]
    pairs = [(t, b) for t, b in zip(totals, best, strict=True) if not b.all()]
    if not pairs:
        return 1.0

    def loss(log_t: float) -> float:
        return -sum(float(np.log(posteriors(t, np.exp(log_t))[b].sum() + 1e-12)) for t, b in pairs)

    grid = np.linspace(-4, 8, 49)
    for _ in range(3):
        place = int(np.argmin([loss(x) for x in grid]))
        grid = np.linspace(grid[max(0, place - 1)], grid[min(len(grid) - 1, place + 1)], 13)
    return float(np.exp(grid[len(grid) // 2]))


def word_confidences(hypotheses: Sequence[Sequence[str]], shares: Array, best: int) -> Array:
    """For each word of the best hypothesis: the posterior of all hypotheses that have it at the aligned place."""
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError:
        raise missing_extra("rapidfuzz", "rescore", "Confidences of words") from None
    words = list(hypotheses[best])
    sure = np.zeros(len(words))
    for other, share in zip(hypotheses, shares, strict=True):
        for part in Levenshtein.opcodes(words, list(other)):
            if part.tag == "equal":
                sure[part.src_start : part.src_end] += share
    return np.minimum(sure, 1.0)


def reliability(confidence: Array, right: NDArray[np.bool_]) -> list[dict[str, float]]:
    """The calibration curve: per tenth of confidence the number of 1-bests, their mean confidence and the share that is right."""
    rows = []
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    for number in range(BINS):
        inside = place == number
        if inside.any():
            rows.append({
                "lists": int(inside.sum()),
                "confidence": float(confidence[inside].mean()),
                "right": float(right[inside].mean()),
            })  # fmt: skip
    return rows

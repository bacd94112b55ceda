"""Is it safe to skip log Z on these lists? Exact against unnormalized, with a sentence at the end.

For ranking, a constant does nothing: what flips ranks is the spread of Σ log Z between the hypotheses of one list,
set against the gap between the best and the second.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from selfnorm._util.errors import UserError, missing_extra
from selfnorm.nn.hierarchical.base import Normalized
from selfnorm.scoring.scorer import Scorer
from selfnorm.tasks.nbest.base import NBest, unknown_of
from selfnorm.tasks.rescoring import Table, Weights, choose, tables
from selfnorm.tasks.wer import References, errors

KNOWN = 0.5  # the least share of known words a verdict can be given on


@dataclass(frozen=True)
class Verdict:
    """flip_rate: share of lists whose 1-best changes when log Z is skipped, with a 95 % Wilson interval."""

    lists: int
    flips: int
    flip_rate: float
    flip_interval: tuple[float, float]
    spread: float  # median over lists of the standard deviation of Σ log Z within the list, times the LM weight
    gap: float  # median gap between the best and second best exact total
    wer_exact: float | None
    wer_unnormalized: float | None
    seconds_exact: float
    seconds_unnormalized: float
    safe: bool
    sentence: str

    def table(self) -> dict[str, object]:
        return asdict(self)


def proportion_interval(hits: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a proportion; sensible at 0 and at n."""
    try:
        from scipy.stats import binomtest
    except ImportError:
        raise missing_extra("scipy", "rescore", "Intervals of proportions") from None
    low, high = binomtest(hits, n).proportion_ci(level, method="wilson")
    return float(low), float(high)


def judge(
    scorer: Scorer,
    lists: Sequence[NBest],
    weights: Weights,
    references: References | None = None,
    allowed: float = 0.05,
    tokenized: bool = False,
) -> Verdict:
    """Score the lists both ways and say whether the 1-best may be trusted without log Z."""
    if not 0 < allowed < 1:
        raise UserError(f"allowed = {allowed}: a share of lists above 0 and below 1 was expected, such as 0.05.")
    if not any(len(nbest.hypotheses) > 1 for nbest in lists):
        raise UserError("No list has two or more hypotheses, so there is nothing to choose and nothing to judge.")
    if weights.lm == 0:
        raise UserError("lm_weight = 0: the model has no say in the choice, so there is nothing to judge.")
    plain = scorer.with_log_z(False)
    start = time.perf_counter()
    tables(plain, lists, tokenized=tokenized)
    seconds_unnormalized = time.perf_counter() - start
    start = time.perf_counter()
    both = tables(plain, lists, log_z=True, tokenized=tokenized)
    seconds_exact = time.perf_counter() - start
    exact = [
        Table(np.column_stack([t.rows[:, :3], t.rows[:, 3] - (0 if t.log_z is None else t.log_z)]), t.log_z)
        for t in both
    ]
    one, two = choose(exact, weights), choose(both, weights)
    real = [i for i, t in enumerate(both) if len(t.rows) > 1]
    flips = sum(one[i] != two[i] for i in real)
    low, high = proportion_interval(flips, max(1, len(real)))
    spread = float(np.median([abs(weights.lm) * _spread(both[i]) for i in real])) if real else 0.0
    gap = float(np.median([_gap(weights.total(exact[i].rows)) for i in real])) if real else 0.0
    wer: tuple[float | None, float | None] = (None, None)
    if references is not None:
        counts, words = errors(lists, references)
        wer = _rate(one, counts, words), _rate(two, counts, words)
    tokenize = str.split if tokenized else scorer.tokenize
    known, by_construction = (
        1 - unknown_of(scorer.vocab, lists, tokenize).share,
        isinstance(scorer.model.output, Normalized),
    )
    safe = by_construction or (high <= allowed and known >= KNOWN)
    if by_construction:
        sentence = "Safe: the model is normalized by construction, its log Z is 0 for every context."
    elif known < KNOWN:
        sentence = (
            f"Not shown to be safe: only {known:.0%} of the words are in the vocabulary. "
            "Are the lists tokenized as the training text was?"
        )
    else:
        sentence = _sentence(safe, flips, len(real), high, allowed, spread, gap)
    return Verdict(
        len(real), flips, flips / max(1, len(real)), (low, high), spread, gap, *wer, seconds_exact, seconds_unnormalized, safe, sentence
    )  # fmt: skip


def _rate(picked: Sequence[int], counts: Sequence[np.ndarray], words: int) -> float:
    return sum(int(c[i]) for c, i in zip(counts, picked, strict=True) if i >= 0) / max(1, words)


def _spread(table: Table) -> float:
    return 0.0 if table.log_z is None else float(table.log_z.std())


def _gap(totals: np.ndarray) -> float:
    best = np.sort(totals)[::-1]
    return float(best[0] - best[1])


def _sentence(safe: bool, flips: int, n: int, high: float, allowed: float, spread: float, gap: float) -> str:
    seen = f"{flips} of {n} lists change their 1-best without log Z (at most {high:.1%} with 95 % confidence)"
    if safe:
        return f"Safe: {seen}; log Z moves totals by {spread:.3f} where the best leads by {gap:.3f}."
    if flips <= allowed * n:
        need = math.ceil(3.7 / allowed)
        return f"Not shown to be safe: {seen}, above the allowed {allowed:.0%}. Judge on more lists (about {max(need, 2 * n)}) to know."
    return (
        f"Not safe: {seen}; log Z moves totals by {spread:.3f} where the best leads by {gap:.3f}. Calibrate with mlp "
        "(selfnorm calibrate RUN --with mlp), train with a penalty (nce_r, nce_s or devlin), or score with --normalized."
    )

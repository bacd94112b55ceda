"""The exact 1-best at nearly the price of skipping log Z.

A rank can only change where the lead is smaller than what log Z can still move, and contexts that two hypotheses share cancel.
So scores are computed without log Z first; exact log Z is then computed only for the contexts in which the leader and a
contender differ, until no contender is within what the rest may still be off by:

    lead(a, b) > lm_weight · B(n),   n = contexts in which a and b differ and whose log Z is not known

B(n) bounds a sum of n unknown log Z around their mean. It comes from a sample of the lists' own contexts: the spread of sums over
whole hypotheses, not of single contexts, so that correlated errors count; it is widened when later values deviate more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from selfnorm._util.errors import UserError
from selfnorm.scoring.scorer import Scorer
from selfnorm.scoring.trie import Walked, walk_together
from selfnorm.tasks.nbest.base import NBest
from selfnorm.tasks.rescoring import Table, Weights, chunks

Array = NDArray[np.float64]
MODES = ("none", "1best", "nbest", "all")
SAMPLE = 300  # contexts whose log Z is computed first, to know how far it spreads


@dataclass
class Bound:
    """How far a sum of n unknown log Z may be from n times their mean, at the confidence asked for."""

    confidence: float
    mean: float = 0.0
    sigma: float = 0.0
    together: float = 1.0  # how much faster sums over a hypothesis spread than independent ones
    largest: float = 0.0
    seen: list[float] = field(default_factory=list)

    def learn(self, sums: Sequence[Array]) -> None:
        """Take in the log Z of some hypotheses' contexts, each an array."""
        every = np.concatenate(sums)
        self.mean, self.sigma = float(every.mean()), float(every.std()) + 1e-9
        scaled = [float((z - self.mean).sum()) / math.sqrt(len(z)) for z in sums if len(z)]
        self.together = max(1.0, float(np.std(scaled)) / self.sigma) if len(scaled) > 1 else 1.0
        self.largest = float(np.abs(every - self.mean).max())

    def widen(self, log_z: Array) -> bool:
        """Look at values computed later: where they deviate more than those known, so does the bound. True if it grew."""
        before = self.sigma, self.largest
        self.seen += [float(x) for x in log_z - self.mean]
        if len(self.seen) >= SAMPLE:
            self.sigma = max(self.sigma, float(np.sqrt(np.mean(np.square(self.seen)))))
        self.largest = max(self.largest, float(np.abs(self.seen).max())) if self.seen else self.largest
        return (self.sigma, self.largest) != before

    def __call__(self, n: Array, pairs: int = 1) -> Array:
        """For one of so many comparisons, which share what may go wrong."""
        each = 1 - (1 - self.confidence) / max(1, pairs)
        z = math.sqrt(2) * float(torch.erfinv(torch.tensor(each, dtype=torch.float64, device="cpu")))
        spread = z * self.sigma * self.together * np.sqrt(n)
        return np.where(n > 0, np.maximum(spread, np.minimum(n, 2) * self.largest), 0.0)


@dataclass
class Exactness:
    """What was computed: lists, how many were certain without any exact value, and contexts."""

    lists: int = 0
    certain: int = 0
    contexts: int = 0
    computed: int = 0

    def sentence(self) -> str:
        share = self.computed / max(1, self.contexts)
        return (
            f"exact: {self.lists:,} lists, {self.certain:,} certain without log Z, {self.lists - self.certain:,} decided by exact "
            f"values; log Z computed for {self.computed:,} of {self.contexts:,} contexts ({share:.1%})"
        )


def exact_tables(
    scorer: Scorer,
    lists: Sequence[NBest],
    weights: Weights,
    mode: str = "1best",
    confidence: float = 0.999,
    tokenized: bool = False,
) -> tuple[list[Table], Exactness]:
    """Tables whose 1-best (or whole order) is that of exact scores, at the confidence asked for.

    A score in them is exact where it was needed; elsewhere the mean of log Z stands for what was not computed.
    """
    if mode not in ("1best", "nbest"):
        raise UserError(f'exact = "{mode}": choose 1best or nbest here.')
    if not 0.5 <= confidence < 1:
        raise UserError(f"confidence = {confidence}: a probability from 0.5 to below 1 was expected, such as 0.999.")
    plain, bound, report, tables = scorer.with_log_z(False), Bound(confidence), Exactness(), []
    for chunk in chunks(lists, 1000):
        walked = walk_together(
            plain, [plain.ids(h.words if tokenized else " ".join(h.words)) for n in chunk for h in n.hypotheses]
        )
        decided = _Chunk(plain, chunk, walked, weights, bound, report)
        decided.decide(mode)
        tables += decided.tables()
    return tables, report


class _Chunk:
    """Some lists in one trie, with what is known of log Z in its nodes."""

    def __init__(
        self, scorer: Scorer, lists: Sequence[NBest], walked: Walked, weights: Weights, bound: Bound, report: Exactness
    ) -> None:
        self.scorer, self.lists, self.walked, self.weights, self.bound, self.report = (
            scorer,
            lists,
            walked,
            weights,
            bound,
            report,
        )
        self.log_z = np.full(len(walked.c), np.nan)
        self.members: list[range] = []
        for nbest in lists:
            start = self.members[-1].stop if self.members else 0
            self.members.append(range(start, start + len(nbest.hypotheses)))
        report.contexts += len(walked.c)
        if not bound.sigma and any(len(path) for path in walked.contexts):
            self._sample()

    def _sample(self) -> None:
        """Exact log Z of some hypotheses, to know how far sums of it spread."""
        order = np.random.default_rng(0).permutation(len(self.walked.contexts))
        chosen: list[int] = []
        for i in order:
            chosen.append(int(i))
            if sum(len(self.walked.contexts[j]) for j in chosen) >= SAMPLE:
                break
        self._compute({int(node) for i in chosen for node in self.walked.contexts[i]})
        self.bound.learn([self.log_z[self.walked.contexts[i]] for i in chosen])

    def _compute(self, nodes: set[int]) -> Array:
        new = np.array(sorted(n for n in nodes if np.isnan(self.log_z[n])), dtype=np.int64)
        if len(new):
            with torch.no_grad():
                c = self.walked.c[torch.from_numpy(new).to(self.walked.c.device)]
                self.log_z[new] = self.scorer.model.output.log_z(c).cpu().double().numpy()
            self.report.computed += len(new)
        values: Array = self.log_z[new]
        return values

    def decide(self, mode: str) -> None:
        """Compute exact values in rounds, all lists at once, until every list is certain."""
        several = {place for place, members in enumerate(self.members) if len(members) > 1 and self.weights.lm != 0}
        waiting = set(several)
        self.report.lists += len(self.lists)
        self.report.certain += len(self.lists) - len(waiting)
        first = True
        while waiting:
            needed = {place: self._needed(place, mode) for place in waiting}
            self.report.certain += sum(not nodes for nodes in needed.values()) if first else 0
            waiting, first = {place for place in waiting if needed[place]}, False
            values = self._compute({node for place in waiting for node in needed[place]})
            if len(values) and self.bound.widen(values):
                waiting |= several  # what was certain may not be any more

    def _needed(self, place: int, mode: str) -> set[int]:
        """Contexts whose log Z could still change this list's order."""
        totals = self._totals(place)
        order = np.argsort(-totals, kind="stable")
        paths = [self.walked.contexts[i] for i in self.members[place]]
        pairs = [(order[0], b) for b in order[1:]] if mode == "1best" else list(pairwise(order))
        nodes: set[int] = set()
        for a, b in pairs:
            apart = np.setxor1d(paths[a], paths[b])
            unknown = apart[np.isnan(self.log_z[apart])]
            if totals[a] - totals[b] <= abs(self.weights.lm) * float(self.bound(np.array(len(unknown)), len(pairs))):
                nodes |= {int(n) for n in unknown}
        return nodes

    def _lm(self, place: int) -> Array:
        filled = np.where(np.isnan(self.log_z), self.bound.mean, self.log_z)
        return np.array([self.walked.m[i] - filled[self.walked.contexts[i]].sum() for i in self.members[place]])

    def _rows(self, place: int) -> Array:
        known = [[h.score, h.old_lm, len(h.words)] for h in self.lists[place].hypotheses]
        return np.column_stack([np.asarray(known, dtype=float).reshape(-1, 3), self._lm(place)])

    def _totals(self, place: int) -> Array:
        return self.weights.total(self._rows(place))

    def tables(self) -> list[Table]:
        return [Table(self._rows(place)) for place in range(len(self.lists))]

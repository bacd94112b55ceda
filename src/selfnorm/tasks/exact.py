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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import numpy as np
import torch

from selfnorm._util.errors import UserError
from selfnorm.scoring.scorer import Scorer
from selfnorm.scoring.trie import Walked, walk_together
from selfnorm.tasks.nbest.base import NBest
from selfnorm.tasks.rescoring import Array, Mix, Table, Weights, chunks, ids_of

MODES = ("none", "1best", "nbest", "all")
SAMPLE = 150  # different contexts whose log Z is computed first, to know how far it spreads


@dataclass
class Bound:
    """How far a sum of n unknown log Z may be from n times their mean, at the confidence asked for."""

    confidence: float
    mean: float = 0.0
    sigma: float = 0.0
    together: float = 1.0  # how much faster sums over a hypothesis spread than independent ones
    largest: float = 0.0
    contexts: dict[int, float] = field(default_factory=dict)  # log Z by the hash of the words before
    hypotheses: dict[int, Array] = field(default_factory=dict)  # log Z of all contexts of one
    seen: list[float] = field(default_factory=list)

    @property
    def known(self) -> bool:
        """Has it seen enough different contexts to be used?"""
        return len(self.contexts) >= SAMPLE

    def learn(self, hypotheses: Sequence[Sequence[int]], log_z: Sequence[Array]) -> None:
        """Take in the log Z of some hypotheses' contexts: after no word, after the first, …, after all.

        A context that many hypotheses share counts once: how often it comes says nothing about the others.
        """
        for words, values in zip(hypotheses, log_z, strict=True):
            keys = list(accumulate(words, lambda before, word: hash((before, word)), initial=0))
            self.hypotheses[keys[-1]] = values
            self.contexts |= dict(zip(keys, values.tolist(), strict=True))
        every = np.array(list(self.contexts.values()))
        self.mean, self.sigma = float(every.mean()), float(every.std()) + 1e-9
        scaled = [float((z - self.mean).sum()) / math.sqrt(len(z)) for z in self.hypotheses.values()]
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
    """What was computed: lists, how many were certain without any exact value, and contexts. Reports add up."""

    lists: int = 0
    certain: int = 0
    contexts: int = 0
    computed: int = 0

    def __iadd__(self, other: Exactness) -> Exactness:
        self.lists, self.certain = self.lists + other.lists, self.certain + other.certain
        self.contexts, self.computed = self.contexts + other.contexts, self.computed + other.computed
        return self

    @property
    def share(self) -> float:
        """The share of contexts whose log Z was computed."""
        return self.computed / max(1, self.contexts)

    def facts(self) -> dict[str, int]:
        return {"lists": self.lists, "certain": self.certain, "contexts": self.contexts, "computed": self.computed}

    def sentence(self) -> str:
        return (
            f"exact: {self.lists:,} lists, {self.certain:,} certain without log Z, {self.lists - self.certain:,} decided by exact "
            f"values; log Z computed for {self.computed:,} of {self.contexts:,} contexts ({self.share:.1%})"
        )


class Exact:
    """Tables whose 1-best (or whole order) is that of exact scores, at the confidence asked for.

    A score in them is exact where it was needed; elsewhere the mean of log Z stands for what was not computed. The spread of
    log Z is learnt from a sample of the lists that are rescored together, so the result does not depend on which lists came
    before, or on which process has them. Where lists come one by one, a `bound` that is kept learns from all of them.
    """

    def __init__(
        self, scorer: Scorer, weights: Weights, mode: str = "1best", confidence: float = 0.999,
        mix: Mix | None = None,
    ) -> None:  # fmt: skip
        if mode not in ("1best", "nbest"):
            raise UserError(f'exact = "{mode}": choose 1best or nbest here.')
        if not 0.5 <= confidence < 1:
            raise UserError(
                f"confidence = {confidence}: a probability from 0.5 to below 1 was expected, such as 0.999."
            )
        self.scorer, self.weights, self.mode = scorer.with_log_z(False), weights, mode
        self.mix, self.confidence = mix or Mix(), confidence

    def tables(
        self, lists: Sequence[NBest], tokenized: bool = False, bound: Bound | None = None
    ) -> tuple[list[Table], Exactness]:
        """The tables of lists that go through one trie, and what they cost."""
        ids = ids_of(self.scorer, lists, tokenized)
        walked = walk_together(self.scorer, ids)
        if bound is not None and bound.known:
            chunk = _Chunk(self, lists, walked, replace(bound, seen=list(bound.seen)))
        else:
            chunk = _Chunk(self, lists, walked, bound or Bound(self.confidence))
            chunk.sample(ids)
        chunk.decide()
        return chunk.tables(), chunk.report


def exact_tables(
    scorer: Scorer, lists: Iterable[NBest], weights: Weights, mode: str = "1best", confidence: float = 0.999,
    tokenized: bool = False,
) -> tuple[list[Table], Exactness]:  # fmt: skip
    """The tables of all lists, and the report."""
    exact, found, report = Exact(scorer, weights, mode, confidence), list[Table](), Exactness()
    for chunk in chunks(lists):
        tables, costs = exact.tables(chunk, tokenized)
        found += tables
        report += costs
    return found, report


class _Chunk:
    """Some lists in one trie, with what is known of log Z in its nodes."""

    def __init__(self, exact: Exact, lists: Sequence[NBest], walked: Walked, bound: Bound) -> None:
        self.exact, self.lists, self.walked, self.bound = exact, lists, walked, bound
        self.weight = abs(exact.weights.lm) * exact.mix.ours  # of our model's score
        self.log_z = np.full(len(walked.c), np.nan)
        self.report = Exactness(lists=len(lists), contexts=len(walked.c) if lists else 0)
        self.members: list[range] = []
        for nbest in lists:
            start = self.members[-1].stop if self.members else 0
            self.members.append(range(start, start + len(nbest.hypotheses)))
        self.fixed = [exact.mix.table(nbest, np.zeros(len(nbest.hypotheses))).rows for nbest in lists]

    def sample(self, ids: Sequence[Sequence[int]]) -> None:
        """Exact log Z of some hypotheses, to know how far sums of it spread."""
        order = np.random.default_rng(0).permutation(len(self.walked.contexts))
        chosen, nodes = list[int](), set[int]()
        for i in order:
            chosen.append(int(i))
            nodes |= {int(node) for node in self.walked.contexts[i]}
            if len(nodes) >= SAMPLE:
                break
        self._compute(nodes)
        if chosen:
            values = [self.log_z[self.walked.contexts[i]] for i in chosen]
            self.bound.learn([ids[i] for i in chosen], values)

    def _compute(self, nodes: set[int]) -> Array:
        new = np.array(sorted(n for n in nodes if np.isnan(self.log_z[n])), dtype=np.int64)
        if len(new):
            with torch.no_grad():
                c = self.walked.c[torch.from_numpy(new).to(self.walked.c.device)]
                self.log_z[new] = self.exact.scorer.model.output.log_z(c).cpu().double().numpy()
            self.report.computed += len(new)
        values: Array = self.log_z[new]
        return values

    def decide(self) -> None:
        """Compute exact values in rounds, all lists at once, until every list is certain."""
        several = {place for place, members in enumerate(self.members) if len(members) > 1 and self.weight}
        waiting = set(several)
        self.report.certain += len(self.lists) - len(waiting)
        first = True
        while waiting:
            needed = {place: self._needed(place) for place in waiting}
            self.report.certain += sum(not nodes for nodes in needed.values()) if first else 0
            waiting, first = {place for place in waiting if needed[place]}, False
            values = self._compute({node for place in waiting for node in needed[place]})
            if len(values) and self.bound.widen(values):
                waiting |= several  # what was certain may not be any more

    def _needed(self, place: int) -> set[int]:
        """Contexts whose log Z could still change this list's order."""
        totals = self.exact.weights.total(self._rows(place))
        order = np.argsort(-totals, kind="stable")
        paths = [self.walked.contexts[i] for i in self.members[place]]
        pairs = [(order[0], b) for b in order[1:]] if self.exact.mode == "1best" else list(pairwise(order))
        nodes: set[int] = set()
        for a, b in pairs:
            apart = np.setxor1d(paths[a], paths[b])
            unknown = apart[np.isnan(self.log_z[apart])]
            if totals[a] - totals[b] <= self.weight * float(self.bound(np.array(len(unknown)), len(pairs))):
                nodes |= {int(n) for n in unknown}
        return nodes

    def _rows(self, place: int) -> Array:
        members, rows = self.members[place], self.fixed[place].copy()
        filled = [
            np.where(np.isnan(z := self.log_z[self.walked.contexts[i]]), self.bound.mean, z).sum() for i in members
        ]
        rows[:, 3] += self.exact.mix.ours * (self.walked.m[members.start : members.stop] - np.array(filled))
        return rows

    def tables(self) -> list[Table]:
        return [Table(self._rows(place)) for place in range(len(self.lists))]

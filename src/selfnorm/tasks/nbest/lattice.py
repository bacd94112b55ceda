"""Lattices as lists: the n best distinct word sequences of a directed acyclic graph.

Every node keeps its n best partial sequences, so a list is exact: the n best of all paths by acoustic + old LM score.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from selfnorm.tasks.nbest.base import Hypothesis


@dataclass(frozen=True)
class Arc:
    start: int
    end: int
    word: str  # "" where there is none
    score: float = 0.0  # acoustic, natural log
    lm: float = 0.0  # old language model, natural log


@dataclass
class Lattice:
    """`final` maps end nodes to what ending there adds (score, lm)."""

    arcs: list[Arc] = field(default_factory=list)
    start: int = 0
    final: dict[int, tuple[float, float]] = field(default_factory=dict)

    @property
    def linear(self) -> bool:
        """Does it have one path only?"""
        return len({arc.start for arc in self.arcs}) == len(self.arcs) and len(self.final) < 2

    def best(self, n: int) -> list[Hypothesis]:
        """The n best distinct word sequences, best first; ValueError where there is a cycle or no path."""
        leaving: dict[int, list[Arc]] = defaultdict(list)
        order = TopologicalSorter[int](dict.fromkeys((self.start, *self.final), ()))
        for arc in self.arcs:
            leaving[arc.start].append(arc)
            order.add(arc.end, arc.start)
        try:
            nodes = list(order.static_order())
        except CycleError:
            raise ValueError("a lattice without cycles") from None
        held: dict[int, list[Hypothesis]] = defaultdict(list)
        held[self.start] = [Hypothesis((), 0.0, 0.0)]
        for node in nodes:
            held[node] = _kept(held[node], n)
            for arc in leaving[node]:
                held[arc.end] += [_longer(h, arc) for h in held[node]]
        ended = [
            Hypothesis(h.words, h.score + score, h.old_lm + lm)
            for node, (score, lm) in self.final.items()
            for h in held[node]
        ]
        if not ended:
            raise ValueError("a path from the first node to a final one")
        return _kept(ended, n)


def _longer(h: Hypothesis, arc: Arc) -> Hypothesis:
    return Hypothesis((*h.words, arc.word) if arc.word else h.words, h.score + arc.score, h.old_lm + arc.lm)


def _kept(hypotheses: Sequence[Hypothesis], n: int) -> list[Hypothesis]:
    """The n best, each word sequence once."""
    best: dict[tuple[str, ...], Hypothesis] = {}
    for h in sorted(hypotheses, key=lambda h: -(h.score + h.old_lm)):
        best.setdefault(h.words, h)
        if len(best) == n:
            break
    return list(best.values())

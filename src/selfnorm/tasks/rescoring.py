"""Rescore n-best lists: score + lm_weight · LM + word_penalty · words (+ old_weight · old LM)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfnorm._util.errors import UserError
from selfnorm.scoring.scorer import Scorer
from selfnorm.scoring.trie import score_together
from selfnorm.tasks.nbest.base import NBest
from selfnorm.tasks.ngram import Ngram

Array = NDArray[np.float64]
AT_ONCE = 4000  # hypotheses in one trie


@dataclass(frozen=True)
class Weights:
    lm: float = 1.0
    word: float = 0.0
    old_lm: float = 0.0

    def __post_init__(self) -> None:
        if not all(math.isfinite(x) for x in (self.lm, self.word, self.old_lm)):
            raise UserError(
                f"weights must be finite numbers; found lm {self.lm}, word {self.word}, old LM {self.old_lm}."
            )

    def total(self, table: Array) -> Array:
        """Combined score of each hypothesis from rows (score, old LM, words, new LM)."""
        return table[:, 0] + self.old_lm * table[:, 1] + self.word * table[:, 2] + self.lm * table[:, 3]


@dataclass(frozen=True)
class Table:
    """Per list: rows (score, old LM, words, new LM), and the summed log Z of each hypothesis if it was asked for."""

    rows: Array
    log_z: Array | None = None


@dataclass(frozen=True)
class Mix:
    """The language model score: (1 - weight) · ours + weight · the n-gram's, a log-linear mixture; ours alone without an n-gram."""

    ngram: Ngram | None = None
    weight: float = 0.5

    @property
    def ours(self) -> float:
        """The share of our model."""
        return 1.0 if self.ngram is None else 1 - self.weight

    def theirs(self, nbest: NBest) -> Array:
        """What the n-gram adds to each hypothesis."""
        if self.ngram is None:
            return np.zeros(len(nbest.hypotheses))
        return np.array([self.weight * self.ngram.words(h.words).sum() for h in nbest.hypotheses])

    def table(self, nbest: NBest, lm: Array, log_z: Array | None = None) -> Table:
        """The list's rows, given our model's scores."""
        known = np.asarray([[h.score, h.old_lm, len(h.words)] for h in nbest.hypotheses], dtype=float).reshape(-1, 3)
        return Table(np.column_stack([known, self.ours * lm + self.theirs(nbest)]), log_z)


def ids_of(scorer: Scorer, lists: Sequence[NBest], tokenized: bool) -> list[list[int]]:
    """Word ids of all hypotheses: tokenized as the model's training text was, or taken as they are if they are `tokenized`."""
    return [scorer.ids(h.words if tokenized else " ".join(h.words)) for nbest in lists for h in nbest.hypotheses]


def tables(
    scorer: Scorer,
    lists: Iterable[NBest],
    log_z: bool = False,
    advance: Callable[[float], None] = lambda n: None,
    mix: Mix | None = None,
    tokenized: bool = False,
) -> list[Table]:
    """Score every hypothesis, many lists in one trie. The new LM column is Σ m, less Σ log Z if the scorer normalizes."""
    found: list[Table] = []
    for chunk in chunks(lists):
        found += table_chunk(scorer, chunk, log_z, mix, tokenized)
        advance(len(chunk))
    return found


def table_chunk(
    scorer: Scorer, lists: Sequence[NBest], log_z: bool = False, mix: Mix | None = None, tokenized: bool = False
) -> list[Table]:
    """The tables of lists that go through one trie."""
    scored = iter(score_together(scorer, ids_of(scorer, lists, tokenized), log_z=log_z or scorer.normalized))
    found = []
    for nbest in lists:
        mine = [next(scored) for _ in nbest.hypotheses]
        lm = np.array([s.total(scorer.normalized) for s in mine])
        found.append((mix or Mix()).table(nbest, lm, np.array([s.log_z_sum for s in mine])))
    return found


def chunks(lists: Iterable[NBest], most: int = AT_ONCE) -> Iterator[list[NBest]]:
    """Lists that go through one trie together: about so many hypotheses."""
    chunk: list[NBest] = []
    size = 0
    for nbest in lists:
        chunk.append(nbest)
        size += len(nbest.hypotheses)
        if size >= most:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def choose(found: Sequence[Table], weights: Weights) -> list[int]:
    """The best hypothesis of each list; -1 where a list is empty."""
    return [best_of(table, weights) for table in found]


def best_of(table: Table, weights: Weights) -> int:
    """The place of the best hypothesis; -1 where the list is empty."""
    return int(weights.total(table.rows).argmax()) if len(table.rows) else -1

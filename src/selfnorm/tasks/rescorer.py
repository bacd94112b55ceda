"""Rescorer: choose from n-best lists, list after list, in constant memory, in one process or several."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from selfnorm._util.errors import UserError
from selfnorm.nn.hierarchical.base import Normalized
from selfnorm.runs.opening import load
from selfnorm.scoring.scorer import Scorer
from selfnorm.tasks.exact import MODES, Bound, Exact, Exactness
from selfnorm.tasks.nbest.base import Hypothesis, NBest
from selfnorm.tasks.rescoring import Array, Mix, Table, Weights, chunks, table_chunk

Plain = Sequence[tuple[str | Sequence[str], float]]


@dataclass(frozen=True)
class Rescored:
    """A rescored list: places of the hypotheses best first, their totals and the language model's scores, as they were given."""

    order: list[int]
    totals: Array
    lm: Array

    @property
    def best(self) -> int:
        """The place of the best hypothesis; -1 where the list was empty."""
        return self.order[0] if self.order else -1


class Rescorer:
    """Choose from n-best lists with a language model: total = score + lm_weight · LM + word_penalty · words.

    lm      a Scorer, or the folder of a run
    exact   1best (the default): log Z is computed only where it could change the best hypothesis, so the best is the one that
            exact scores would choose, at the confidence asked for. nbest: the same for the whole order. none: log Z is skipped.
            all: log Z is computed everywhere

    One object serves many calls: what it learns from the first lists about the spread of log Z serves the later ones.

        rescorer = Rescorer("runs/nce", lm_weight=0.5)
        for result in rescorer.rescore(lists):        # each list a sequence of (text or words, score)
            result.best, result.order, result.totals
        rescorer.report                               # lists, contexts, how many log Z were computed
    """

    def __init__(
        self, lm: Scorer | str | Path, lm_weight: float = 1.0, word_penalty: float = 0.0, old_lm_weight: float = 0.0,
        exact: str = "1best", confidence: float = 0.999, mix: Mix | None = None,
    ) -> None:  # fmt: skip
        if exact not in MODES:
            raise UserError(f'exact = "{exact}": choose none, 1best, nbest or all.')
        scorer = lm if isinstance(lm, Scorer) else load(lm, normalized=exact != "none")
        if isinstance(scorer.model.output, Normalized):
            exact = "none"  # its log Z is 0
        elif isinstance(lm, Scorer) and scorer.normalized:
            exact = "all"
        self.lm, self.exact = scorer.with_log_z(exact == "all"), exact
        self.weights, self.mix = Weights(lm_weight, word_penalty, old_lm_weight), mix or Mix()
        self.report = Exactness()
        self._bound = Bound(confidence)  # learnt from all lists of `rescore`
        self._exact = Exact(self.lm, self.weights, exact, confidence, self.mix) if exact in ("1best", "nbest") else None

    def rescore(self, lists: Iterable[Plain]) -> list[Rescored]:
        """Rescore plain Python lists. Text is tokenized as the model's training text was; a list of words is taken as it is."""
        nbests = (self._nbest(place, hypotheses) for place, hypotheses in enumerate(lists))
        results = []
        for chunk in chunks(nbests):
            for table in self._count(self.tables(chunk, True, self._bound)):
                totals = self.weights.total(table.rows)
                results.append(Rescored([int(i) for i in np.argsort(-totals, kind="stable")], totals, table.rows[:, 3]))
        return results

    def stream(
        self, lists: Iterable[NBest], tokenized: bool = False, workers: int = 1
    ) -> Iterator[tuple[NBest, Table]]:
        """Each list with its table, in order, holding a few thousand hypotheses at a time; `workers` processes share the work."""
        if workers > 1:
            yield from _spread(self, chunks(lists), tokenized, workers)
            return
        for chunk in chunks(lists):
            yield from zip(chunk, self._count(self.tables(chunk, tokenized)), strict=True)

    def tables(
        self, chunk: Sequence[NBest], tokenized: bool, bound: Bound | None = None
    ) -> tuple[list[Table], Exactness]:
        """The tables of lists that go through one trie, and what they cost."""
        if self._exact is not None:
            return self._exact.tables(chunk, tokenized, bound)
        return table_chunk(self.lm, chunk, mix=self.mix, tokenized=tokenized), Exactness(lists=len(chunk))

    def _count(self, result: tuple[list[Table], Exactness]) -> list[Table]:
        tables, report = result
        self.report += report
        return tables

    def _nbest(self, place: int, hypotheses: Plain) -> NBest:
        if not all(isinstance(h, tuple | list) and len(h) == 2 for h in hypotheses):
            raise UserError(
                f'list {place}: each hypothesis is a pair of text (or words) and score, such as ("a b", -1.5).'
            )
        words = [tuple(self.lm.tokenize(text) if isinstance(text, str) else text) for text, _ in hypotheses]
        pairs = zip(words, (score for _, score in hypotheses), strict=True)
        return NBest(str(place), tuple(Hypothesis(w, float(score)) for w, score in pairs))


def rescore(
    lm: Scorer | str | Path,
    lists: Iterable[Plain],
    lm_weight: float = 1.0,
    word_penalty: float = 0.0,
    exact: str = "1best",
) -> list[Rescored]:
    """Choose from n-best lists given as plain Python: each list a sequence of (text or words, score).

    total = score + lm_weight · LM + word_penalty · words; scores are natural logs, larger is better. Text is tokenized as the
    model's training text was; a list of words is taken as it is. Prefixes that hypotheses share are computed once.

    exact   1best, nbest: log Z is computed only where it could change the best, or the order. none: it is skipped. all: everywhere

        best = rescore(lm, [[("the cat sat", -12.1), ("the cat sad", -11.9)]], lm_weight=0.5)[0]
        best.best, best.order, best.totals

    For many calls keep a `Rescorer`.
    """
    return Rescorer(lm, lm_weight, word_penalty, exact=exact).rescore(lists)


# Several processes

_worker: Callable[[list[NBest]], tuple[list[Table], Exactness]]


def _start(rescorer: Rescorer, tokenized: bool) -> None:
    import torch

    global _worker
    torch.set_num_threads(1)
    _worker = lambda chunk: rescorer.tables(chunk, tokenized)  # noqa: E731


def _work(chunk: list[NBest]) -> tuple[list[Table], Exactness]:
    return _worker(chunk)


def _spread(
    rescorer: Rescorer, waiting: Iterator[list[NBest]], tokenized: bool, workers: int
) -> Iterator[tuple[NBest, Table]]:
    """Chunks to processes that share the model's memory, results in order, at most two chunks a process in flight."""
    from torch.multiprocessing import get_context

    flying: deque[tuple[list[NBest], Future[tuple[list[Table], Exactness]]]] = deque()
    with ProcessPoolExecutor(workers, get_context("spawn"), _start, (rescorer, tokenized)) as pool:
        for chunk in waiting:
            flying.append((chunk, pool.submit(_work, [_bare(nbest) for nbest in chunk])))
            if len(flying) == 2 * workers:
                done, future = flying.popleft()
                yield from zip(done, rescorer._count(future.result()), strict=True)
        for done, future in flying:
            yield from zip(done, rescorer._count(future.result()), strict=True)


def _bare(nbest: NBest) -> NBest:
    """The list without what only its format needs."""
    return replace(nbest, raw=None, hypotheses=tuple(replace(h, raw=None) for h in nbest.hypotheses))

"""Rescore n-best lists: score + lm_weight · LM + word_penalty · words (+ old_weight · old LM), and tune the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfnorm._util.errors import UserError, missing_extra
from selfnorm.scoring.scorer import Scorer
from selfnorm.scoring.trie import score_together
from selfnorm.tasks.nbest.base import Hypothesis, NBest
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


def tables(
    scorer: Scorer,
    lists: Sequence[NBest],
    log_z: bool = False,
    advance: Callable[[float], None] = lambda n: None,
    ngram: Ngram | None = None,
    ngram_weight: float = 0.5,
    tokenized: bool = False,
) -> list[Table]:
    """Score every hypothesis, many lists in one trie. The new LM column is Σ m, less Σ log Z if the scorer normalizes.

    Hypotheses are tokenized as the model's training text was, or taken as they are if they are `tokenized`.
    With an n-gram model it is (1 - weight) · ours + weight · its score: a log-linear mixture.
    """
    found: list[Table] = []
    for chunk in chunks(lists):
        texts = (h.words if tokenized else " ".join(h.words) for nbest in chunk for h in nbest.hypotheses)
        ids = [scorer.ids(text) for text in texts]
        scored = iter(score_together(scorer, ids, log_z=log_z or scorer.normalized))
        for nbest in chunk:
            mine = [next(scored) for _ in nbest.hypotheses]
            z = np.array([s.log_z_sum for s in mine])
            lm = np.array([s.total(scorer.normalized) for s in mine])
            if ngram is not None:
                theirs = np.array([ngram.words(h.words).sum() for h in nbest.hypotheses])
                lm = (1 - ngram_weight) * lm + ngram_weight * theirs
            rows = [[h.score, h.old_lm, len(h.words)] for h in nbest.hypotheses]
            found.append(Table(np.column_stack([np.asarray(rows, dtype=float).reshape(-1, 3), lm]), z))
        advance(len(chunk))
    return found


def chunks(lists: Sequence[NBest], most: int = AT_ONCE) -> Iterator[list[NBest]]:
    """Lists that go through one trie together: about so many hypotheses."""
    chunk: list[NBest] = []
    for nbest in lists:
        chunk.append(nbest)
        if sum(len(n.hypotheses) for n in chunk) >= most:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def choose(found: Sequence[Table], weights: Weights) -> list[int]:
    """The best hypothesis of each list; -1 where a list is empty."""
    return [int(weights.total(table.rows).argmax()) if len(table.rows) else -1 for table in found]


def rescore(
    lm: Scorer,
    lists: Iterable[Sequence[tuple[str | Sequence[str], float]]],
    lm_weight: float = 1.0,
    word_penalty: float = 0.0,
    exact: str = "none",
) -> list[Rescored]:
    """Choose from n-best lists given as plain Python: each list a sequence of (text or words, score).

    total = score + lm_weight · LM + word_penalty · words; scores are natural logs, larger is better. Text is tokenized as the
    model's training text was; a list of words is taken as it is. Prefixes that hypotheses share are computed once.

    exact   none: log Z is skipped. 1best, nbest: it is computed only where it could change the best, or the order. all: everywhere

        best = rescore(lm, [[("the cat sat", -12.1), ("the cat sad", -11.9)]], lm_weight=0.5)[0]
        best.best, best.order, best.totals
    """
    weights, made = Weights(lm_weight, word_penalty), []
    for place, hypotheses in enumerate(lists):
        if not all(isinstance(h, tuple | list) and len(h) == 2 for h in hypotheses):
            raise UserError(
                f'list {place}: each hypothesis is a pair of text (or words) and score, such as ("a b", -1.5).'
            )
        words = [tuple(lm.tokenize(text) if isinstance(text, str) else text) for text, _ in hypotheses]
        pairs = zip(words, (score for _, score in hypotheses), strict=True)
        made.append(NBest(str(place), tuple(Hypothesis(w, float(score)) for w, score in pairs)))
    results = []
    if exact in ("1best", "nbest"):
        from selfnorm.tasks.exact import exact_tables

        found, _ = exact_tables(lm, made, weights, exact, tokenized=True)
    elif exact in ("none", "all"):
        found = tables(lm.with_log_z(exact == "all" or lm.normalized), made, tokenized=True)
    else:
        raise UserError(f'exact = "{exact}": choose none, 1best, nbest or all.')
    for table in found:
        totals = weights.total(table.rows)
        results.append(Rescored([int(i) for i in np.argsort(-totals, kind="stable")], totals, table.rows[:, 3]))
    return results


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


# Word error rate and tuning


def errors(lists: Sequence[NBest], references: dict[str, str]) -> tuple[list[NDArray[np.int64]], int]:
    """Word errors of every hypothesis against its reference (by jiwer), and the reference words in all."""
    try:
        import jiwer
    except ImportError:
        raise missing_extra("jiwer", "rescore", "Word error rates") from None
    counts, words = [], 0
    for nbest in lists:
        reference = _reference(nbest, references)
        words += len(reference.split())
        counts.append(
            np.array([_errors(jiwer, reference, " ".join(h.words)) for h in nbest.hypotheses], dtype=np.int64)
        )
    return counts, words


def own_references(lists: Sequence[NBest]) -> dict[str, str] | None:
    """The references the lists bring along, if each does."""
    own = {n.name: " ".join(n.reference) for n in lists if n.reference is not None}
    return own if len(own) == len(lists) else None


def _reference(nbest: NBest, references: dict[str, str]) -> str:
    if nbest.name not in references:
        raise UserError(f"There is no reference for list {nbest.name}. References are lines: name words.")
    return references[nbest.name]


def _errors(jiwer: object, reference: str, hypothesis: str) -> int:
    if not reference or not hypothesis:
        return max(len(reference.split()), len(hypothesis.split()))
    found = jiwer.process_words(reference, hypothesis)  # type: ignore[attr-defined]
    return int(found.substitutions + found.deletions + found.insertions)


def error_rate(found: Sequence[Table], counts: Sequence[NDArray[np.int64]], words: int, weights: Weights) -> float:
    picked = choose(found, weights)
    return sum(int(c[i]) for c, i in zip(counts, picked, strict=True) if i >= 0) / max(1, words)


def tune(loss: Callable[[Weights], float], old_lm: bool = False) -> Weights:
    """Search the weights that minimize `loss` on a development set: a coarse grid, then finer ones around the best."""
    best = Weights(0.0, 0.0, 0.0)
    lm, word, old = (
        np.array([0, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20]),
        np.arange(-20, 21, 4.0),
        np.array([0.0, 0.5, 1.0]),
    )
    for _ in range(4):
        points = [Weights(float(a), float(b), float(c)) for a in lm for b in word for c in (old if old_lm else [0.0])]
        best = min([best, *points], key=lambda w: (loss(w), abs(w.word), w.lm))
        step = (word[1] - word[0]) / 3
        lm = best.lm * np.array([0.5, 0.7, 0.85, 1, 1.15, 1.4, 2]) if best.lm else np.array([0.0, 0.01, 0.03])
        word, old = best.word + step * np.arange(-3, 4), best.old_lm + np.array([-0.2, 0, 0.2])
    return best


def bleu(lists: Sequence[NBest], picked: Sequence[int], references: dict[str, str]) -> float:
    """Corpus BLEU (by sacrebleu) of the picked hypotheses."""
    try:
        import sacrebleu
    except ImportError:
        raise missing_extra("sacrebleu", "rescore", "BLEU") from None
    texts = [" ".join(n.hypotheses[i].words) if i >= 0 else "" for n, i in zip(lists, picked, strict=True)]
    return float(sacrebleu.corpus_bleu(texts, [[_reference(n, references) for n in lists]], tokenize="none").score)


def quality(
    lists: Sequence[NBest], found: Sequence[Table], weights: Weights, references: dict[str, str], metric: str
) -> float:
    """Word error rate (smaller is better) or BLEU (larger is better) of what these weights choose."""
    if metric == "bleu":
        return bleu(lists, choose(found, weights), references)
    return error_rate(found, *errors(lists, references), weights)


def tuned(
    lists: Sequence[NBest], found: Sequence[Table], references: dict[str, str], metric: str, old_lm: bool
) -> tuple[Weights, float]:
    """The weights that do best on these lists, and how well they do."""
    if metric == "bleu":
        best = tune(lambda w: -bleu(lists, choose(found, w), references), old_lm)
        return best, bleu(lists, choose(found, best), references)
    counts, words = errors(lists, references)
    best = tune(lambda w: error_rate(found, counts, words, w), old_lm)
    return best, error_rate(found, counts, words, best)

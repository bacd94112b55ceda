"""Sentence completion: choose the word that maximizes the summed scores of the sentence (section 6 of the paper)."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from selfnorm._util.errors import UserError, missing_extra
from selfnorm._util.files import read_text
from selfnorm.data.tokenizers import Tokenize
from selfnorm.scoring.scorer import Scorer
from selfnorm.scoring.trie import score_together
from selfnorm.tasks.exact import Exactness
from selfnorm.tasks.nbest.base import Hypothesis, NBest
from selfnorm.tasks.ngram import Ngram
from selfnorm.tasks.rescorer import Rescorer
from selfnorm.tasks.rescoring import best_of
from selfnorm.tasks.verdict import proportion_interval

GAP = re.compile(r"_{5,}")
AT_ONCE = 400  # questions in one trie


@dataclass(frozen=True)
class Question:
    name: str
    text: str  # with one gap
    choices: tuple[str, ...]
    answer: int | None = None

    def sentences(self) -> list[str]:
        before, after = GAP.split(self.text)
        return [before + choice + after for choice in self.choices]


def read_questions(path: Path, answers: Path | None = None) -> list[Question]:
    """id,question,a),b),…: one gap each, two or more choices; the key, if given, is id,answer in the same order."""
    rows = _csv(path)
    head, found = rows[0], []
    if len(head) < 4 or head[0].lower() != "id" or head[1].lower() != "question":
        raise UserError(
            f"{path} line 1: expected id,question and at least two columns of choices, found {','.join(head)[:80]!r}."
        )
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(head) or any(not choice.strip() for choice in row[2:]):
            raise UserError(
                f"{path} line {number}: expected {len(head) - 2} choices, found {sum(bool(c.strip()) for c in row[2:])}."
            )
        if (gaps := len(GAP.findall(row[1]))) != 1:
            raise UserError(f"{path} line {number}: expected one gap _____, found {gaps}.")
        found.append(Question(row[0], row[1], tuple(choice.strip() for choice in row[2:])))
    if not found:
        raise UserError(f"{path} holds no question.")
    return found if answers is None else _with_answers(found, answers)


def _with_answers(questions: list[Question], path: Path) -> list[Question]:
    rows, answered = _csv(path)[1:], []
    if len(rows) != len(questions):
        raise UserError(f"{path} has {len(rows)} answers for {len(questions)} questions.")
    for number, (question, row) in enumerate(zip(questions, rows, strict=True), 2):
        if len(row) < 2 or row[0] != question.name:
            raise UserError(
                f"{path} line {number}: expected the answer to question {question.name}, found {','.join(row)[:60]!r}."
            )
        place = "abcdefghijklmnopqrstuvwxyz".find(row[1].strip().lower().rstrip(")") or "?")
        if len(row[1].strip().rstrip(")")) != 1 or not 0 <= place < len(question.choices):
            raise UserError(
                f"{path} line {number}: the answer {row[1]!r} is not among the {len(question.choices)} choices."
            )
        answered.append(Question(question.name, question.text, question.choices, place))
    return answered


def _csv(path: Path) -> list[list[str]]:
    try:
        rows = [row for row in csv.reader(io.StringIO(read_text(path), newline="")) if row]
    except csv.Error as error:
        raise UserError(f"{path} is not a CSV file: {error}.") from None
    if not rows:
        raise UserError(f"{path} is empty. A CSV file with a head line was expected.")
    return rows


@dataclass(frozen=True)
class Answered:
    """For each question the choice with log Z, without it, and what the answer sentences' words gave."""

    normalized: list[int]
    unnormalized: list[int]
    answer_nll: np.ndarray
    answer_log_z: np.ndarray


def answer(
    scorer: Scorer,
    questions: Sequence[Question],
    advance: Callable[[float], None] = lambda n: None,
) -> Answered:
    """Both ways at once; the part left of the gap is shared by the candidates and runs once."""
    normalized, unnormalized, nll, log_z = [], [], [], []
    for at in range(0, len(questions), AT_ONCE):
        chunk = questions[at : at + AT_ONCE]
        ids = [scorer.ids(sentence) for question in chunk for sentence in question.sentences()]
        scored = iter(score_together(scorer, ids, log_z=True))
        for question in chunk:
            mine = [next(scored) for _ in question.choices]
            unnormalized.append(int(np.argmax([s.total(normalized=False) for s in mine])))
            normalized.append(int(np.argmax([s.total(normalized=True) for s in mine])))
            if question.answer is not None:
                right = mine[question.answer]
                assert right.log_z is not None
                nll.append(right.log_z - right.m)
                log_z.append(right.log_z)
        advance(len(chunk))
    empty = [np.zeros(0)]
    return Answered(normalized, unnormalized, np.concatenate(nll or empty), np.concatenate(log_z or empty))


def as_lists(questions: Iterable[Question], tokenize: Tokenize) -> Iterator[NBest]:
    """Each question as an n-best list: its choices, all with the score 0, so that the language model alone decides."""
    for question in questions:
        yield NBest(question.name, tuple(Hypothesis(tuple(tokenize(s)), 0.0) for s in question.sentences()))


def decide(scorer: Scorer, questions: Sequence[Question], confidence: float = 0.999) -> tuple[list[int], Exactness]:
    """The choices of exact scores, with log Z computed only where it could change one; and what was computed."""
    rescorer = Rescorer(scorer.with_log_z(False), exact="1best", confidence=confidence)
    stream = rescorer.stream(as_lists(questions, scorer.tokenize), tokenized=True)
    return [best_of(table, rescorer.weights) for _, table in stream], rescorer.report


def answer_with_ngram(ngram: Ngram, questions: Sequence[Question], tokenize: Tokenize) -> list[int]:
    """The same choices by an n-gram model, words outside its own vocabulary being its <unk>."""
    return [int(np.argmax([ngram.words(tokenize(s)).sum() for s in question.sentences()])) for question in questions]


@dataclass(frozen=True)
class Versus:
    """Another model on the same questions: its accuracy, and McNemar's exact test of the two."""

    accuracy: float
    interval: tuple[float, float]
    mcnemar_p: float


def versus(questions: Sequence[Question], ours: Sequence[int], theirs: Sequence[int]) -> Versus:
    right = [q.answer == a for q, a in zip(questions, theirs, strict=True)]
    low, high = proportion_interval(sum(right), len(right))
    mine = [q.answer == a for q, a in zip(questions, ours, strict=True)]
    return Versus(100 * sum(right) / len(right), (100 * low, 100 * high), mcnemar(mine, right))


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Exact two-sided p of "both are right equally often", from the questions where only one is right."""
    try:
        from scipy.stats import binomtest
    except ImportError:
        raise missing_extra("scipy", "report", "McNemar's test") from None
    gained = sum(b and not a for a, b in zip(first, second, strict=True))
    lost = sum(a and not b for a, b in zip(first, second, strict=True))
    return float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


def summary(questions: Sequence[Question], found: Answered) -> dict[str, Any]:
    """acc_n, delta_acc, perplexity and sigma_z over the answer sentences, McNemar's exact test, and where the two differ."""
    right_n = [q.answer == a for q, a in zip(questions, found.normalized, strict=True)]
    right_u = [q.answer == a for q, a in zip(questions, found.unnormalized, strict=True)]
    count = len(questions)
    return {
        "questions": count,
        "acc_n": 100 * sum(right_n) / count,
        "acc_n_interval": [100 * x for x in proportion_interval(sum(right_n), count)],
        "acc_u": 100 * sum(right_u) / count,
        "delta_acc": 100 * (sum(right_u) - sum(right_n)) / count,
        "mcnemar_p": mcnemar(right_n, right_u),
        "perplexity": math.exp(float(found.answer_nll.mean())),
        "mu_z": float(found.answer_log_z.mean()),
        "sigma_z": float(found.answer_log_z.std()),
        "disagree": [
            {
                "id": q.name,
                "normalized": q.choices[n],
                "unnormalized": q.choices[u],
                "answer": q.choices[q.answer or 0],
            }
            for q, n, u in zip(questions, found.normalized, found.unnormalized, strict=True)
            if n != u
        ],
    }

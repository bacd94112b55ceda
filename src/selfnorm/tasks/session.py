"""What is counted while lists stream through a rescorer: errors, unknown words, confidences; and tuning on a development set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from selfnorm._util.errors import UserError
from selfnorm.data.tokenizers import Tokenize
from selfnorm.data.vocab import Unknown, Vocab
from selfnorm.tasks.bleu import bleu
from selfnorm.tasks.confidence import fit_temperature, posteriors, reliability, word_confidences
from selfnorm.tasks.nbest.base import NBest
from selfnorm.tasks.nbest.lists import escaped
from selfnorm.tasks.rescoring import Table, Weights, best_of
from selfnorm.tasks.tuning import FEW, Picks, tune_on, word_errors
from selfnorm.tasks.wer import ErrorRate, References


@dataclass
class Session:
    """Counts over the lists that were rescored."""

    references: References
    metric: str
    vocab: Vocab
    tokenize: Tokenize
    temperature: float = 1.0
    counting: bool = True  # errors, where there are references
    lists: int = 0
    unknown_wins: int = 0
    uncounted: int = 0  # lists with a reference that is not looked at
    rate: ErrorRate = field(default_factory=ErrorRate)
    texts: tuple[list[str], list[str], list[str]] = field(default_factory=lambda: ([], [], []))
    sure: list[tuple[float, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.unknown = Unknown(self.vocab)

    def add(self, nbest: NBest, table: Table, weights: Weights) -> str:
        """Count a list; the text of its best hypothesis."""
        best, before = best_of(table, weights), best_of(table, Weights(0.0))
        words = [" ".join(h.words) for h in nbest.hypotheses]
        self.lists += 1
        for place, text in enumerate(words):
            ids = self.vocab.ids(self.tokenize(text))
            self.unknown.count(ids)
            self.unknown_wins += place == best and self.vocab.unk in ids
        if not self.counting:
            self.uncounted += nbest.reference is not None
        elif self.metric == "bleu":
            reference = self.references.of(nbest)
            if reference is not None:
                for column, text in zip(self.texts, (words[best], words[before]), strict=False):
                    column.append(self.references.normal(text))
                self.texts[2].append(reference)
        elif (found := self.references.counts(nbest)) is not None:
            counts, length = found
            self.rate.add(int(counts[best]), int(counts[before]), length)
            share = float(posteriors(weights.total(table.rows), self.temperature)[best])
            self.sure.append((share, bool(counts[best] == counts.min())))
        return words[best]

    def confidence(self, nbest: NBest, table: Table, weights: Weights) -> Iterator[str]:
        """The line of --print confidence: name, posterior of the best hypothesis, and word:confidence for each of its words."""
        totals = weights.total(table.rows)
        best, shares = int(totals.argmax()), posteriors(totals, self.temperature)
        sure = word_confidences([h.words for h in nbest.hypotheses], shares, best)
        words = (f"{word}:{p:.3f}" for word, p in zip(nbest.hypotheses[best].words, sure, strict=True))
        yield " ".join([escaped(nbest.name), f"{shares[best]:.4f}", *words])

    def facts(self) -> dict[str, Any]:
        """Error rates (or BLEU) and the calibration curve of the confidences, where there were references."""
        if self.texts[2]:
            chosen, before, references = self.texts
            return {"bleu": bleu(chosen, references), "bleu_without_lm": bleu(before, references)}
        if not self.rate.words:
            return {}
        share, right = (np.array(column) for column in zip(*self.sure, strict=True))
        return {**self.rate.facts(), "reliability": reliability(share, right.astype(bool))}

    def remarks(self) -> Iterator[str]:
        """Sentences for the user."""
        if self.unknown_wins:
            yield f"{self.unknown_wins:,} of {self.lists:,} chosen hypotheses hold a word outside the vocabulary"
        if self.uncounted:
            yield f"{self.uncounted:,} lists bring references; for error rates install the extra: pip install 'selfnorm[rescore]'"
        if self.references.without and (self.rate.words or self.texts[2]):
            yield f"{self.references.without:,} of {self.lists:,} lists have no reference; the error rate is that of the others"


@dataclass(frozen=True)
class Development:
    """Weights found on a development set, with what they are worth there."""

    weights: Weights
    temperature: float
    metric: str
    value: float
    cross_validated: float | None
    lists: int

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"weights": self.weights.__dict__, f"{self.metric}_development": self.value}
        if self.cross_validated is not None:
            facts[f"{self.metric}_cross_validated"] = self.cross_validated
        return facts

    def remarks(self) -> Iterator[str]:
        if self.lists < FEW:
            yield (
                f"weights were tuned on {self.lists} lists: fewer than {FEW} give weights that may not hold on others. "
                f"The cross-validated {self.metric} says what to expect."
            )


def develop(
    lists: list[NBest], tables: list[Table], references: References, metric: str, old_lm: bool = False
) -> Development:
    """Tune weights, and the temperature of confidences, on lists with references."""
    if not lists:
        raise UserError("There is no list to tune on.")
    if metric == "bleu":
        wanted = [references.of(n) or "" for n in lists]

        def loss(picks: Picks, places: Picks) -> float:
            texts = [
                references.normal(" ".join(lists[i].hypotheses[p].words)) for p, i in zip(picks, places, strict=True)
            ]
            return -bleu(texts, [wanted[i] for i in places])

        found = tune_on(tables, loss, old_lm)
        checked = None if found.cross_validated is None else -found.cross_validated
        return Development(found.weights, 1.0, metric, -found.loss, checked, len(lists))
    every = [references.counts(n) for n in lists]
    known = [c for c in every if c is not None]
    if len(known) < len(lists):
        raise UserError(f"{len(lists) - len(known)} of {len(lists)} lists have no reference: tuning needs all.")
    counts, words = [c for c, _ in known], sum(n for _, n in known)
    found = tune_on(tables, word_errors(counts, words), old_lm)
    temperature = fit_temperature(tables, counts, found.weights)
    return Development(found.weights, temperature, metric, found.loss, found.cross_validated, len(lists))

"""Word errors against references, with the usual options, and intervals by resampling lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from selfnorm._util.errors import UserError, missing_extra
from selfnorm.tasks.nbest.base import NBest, lines_of
from selfnorm.tasks.nbest.lists import escaped

Counts = NDArray[np.int64]


def read_references(path: Path) -> dict[str, str]:
    """Lines "name words…" to words by name. A name that comes twice is refused."""
    found: dict[str, str] = {}
    for place, line in enumerate(lines_of(path), 1):
        name, *words = line.split() or [""]
        if not name:
            continue
        if name in found:
            raise UserError(f"{path} line {place}: there is a reference for {name} already. Keep one of them.")
        found[name] = " ".join(words)
    if not found:
        raise UserError(f'{path} holds no reference. Lines "name words" were expected.')
    return found


def read_mapping(path: Path) -> dict[str, str]:
    """Lines "word replacement…": words that count as the same, such as hesitations. Nothing after the word: it is left out."""
    found: dict[str, str] = {}
    for place, line in enumerate(lines_of(path), 1):
        word, *rest = line.split() or [""]
        if word and word in found:
            raise UserError(f"{path} line {place}: {word} is mapped already.")
        if word:
            found[word] = " ".join(rest)
    return found


@dataclass
class References:
    """The correct words of each list, and how they are compared.

    known         by name, or None: each list brings its own
    ignore_case   compare in lower case
    mapping       words replaced in references and hypotheses; with ignore_case, whatever their case
    """

    known: dict[str, str] | None = None
    ignore_case: bool = False
    mapping: dict[str, str] = field(default_factory=dict)
    without: int = 0  # lists without a reference of their own
    _case: list[tuple[bool, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.ignore_case:
            lower = {word.lower(): replacement.lower() for word, replacement in self.mapping.items()}
            for word, replacement in self.mapping.items():
                if lower[word.lower()] != replacement.lower():
                    raise UserError(f"{word} is mapped to two words, which --ignore-case cannot tell apart.")
            self.mapping = lower

    def using(self, known: dict[str, str] | None) -> References:
        """The same comparison with other references."""
        return References(known, self.ignore_case, self.mapping)

    def of(self, nbest: NBest) -> str | None:
        """The list's reference, normalized; None where lists bring their own and this one has none."""
        if self.known is None:
            self.without += nbest.reference is None
            return None if nbest.reference is None else self.normal(" ".join(nbest.reference))
        for name in (nbest.name, escaped(nbest.name), unquote(nbest.name)):
            if name in self.known:
                return self.normal(self.known[name])
        raise UserError(f"There is no reference for list {nbest.name}. References are lines: name words.")

    def normal(self, text: str) -> str:
        """As it is compared."""
        text = text.lower() if self.ignore_case else text
        return " ".join(self.mapping.get(word, word) for word in text.split()) if self.mapping else text

    def counts(self, nbest: NBest) -> tuple[Counts, int] | None:
        """Word errors of every hypothesis (by jiwer), and the reference's number of words."""
        reference = self.of(nbest)
        if reference is None:
            return None
        texts = [self.normal(" ".join(h.words)) for h in nbest.hypotheses]
        self._check_case(reference, texts)
        return np.array([_errors(reference, text) for text in texts], dtype=np.int64), len(reference.split())

    def _check_case(self, reference: str, texts: Sequence[str]) -> None:
        """Stop where all of the first lists have one side in upper case and the other in lower case."""
        if self.ignore_case or len(self._case) > 20 or not reference or not any(texts):
            return
        said = " ".join(texts)
        self._case.append((reference.isupper() and said.islower(), reference.islower() and said.isupper()))
        if len(self._case) == 20 and any(map(all, zip(*self._case, strict=True))):
            raise UserError(
                f"References and hypotheses differ in case ({reference[:30]!r}, {texts[0][:30]!r}): every word would be an error. "
                "Compare without case (--ignore-case), or convert one of them."
            )


def _errors(reference: str, hypothesis: str) -> int:
    if not reference.split() or not hypothesis.split():
        return max(len(reference.split()), len(hypothesis.split()))
    try:
        import jiwer
    except ImportError:
        raise missing_extra("jiwer", "rescore", "Word error rates") from None
    found = jiwer.process_words(reference, hypothesis)
    return int(found.substitutions + found.deletions + found.insertions)


def errors(lists: Iterable[NBest], references: References) -> tuple[list[Counts], int]:
    """Word errors of every hypothesis of every list, and the reference words in all. Every list must have a reference."""
    counts, words = [], 0
    for nbest in lists:
        found = references.counts(nbest)
        if found is None:
            raise UserError(f"List {nbest.name} has no reference.")
        counts.append(found[0])
        words += found[1]
    return counts, words


def interval(errors: Counts, words: Counts, level: float = 0.95, rounds: int = 1000) -> tuple[float, float]:
    """Bootstrap interval of an error rate (or, given differences of errors, of a difference) over lists."""
    rng, n = np.random.default_rng(0), len(errors)
    rates = []
    for _ in range(rounds):
        chosen = rng.integers(n, size=n)
        rates.append(errors[chosen].sum() / max(1, words[chosen].sum()))
    low, high = np.quantile(rates, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@dataclass
class ErrorRate:
    """Errors of what was chosen, and of what the scores alone would choose, list by list."""

    chosen: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)

    def add(self, chosen: int, before: int, words: int) -> None:
        self.chosen.append(chosen)
        self.before.append(before)
        self.words.append(words)

    def facts(self) -> dict[str, object]:
        """wer, wer_without_lm, and 95 % intervals of wer and of the change."""
        chosen, before, words = (np.array(x, dtype=np.int64) for x in (self.chosen, self.before, self.words))
        total = max(1, int(words.sum()))
        return {
            "wer": int(chosen.sum()) / total,
            "wer_interval": interval(chosen, words),
            "wer_without_lm": int(before.sum()) / total,
            "wer_change_interval": interval(chosen - before, words),
        }

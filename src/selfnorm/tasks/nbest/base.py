"""NBest: a list of hypotheses, whatever format it came in; and what a format is.

Each hypothesis has a score that is not the language model's (acoustic or translation, natural log, larger is better) and, where
there is one, the old language model's score.

A format is a class with

    read(path, reading)                        the lists of a file or folder; bad lines go to reading.bad
    write(nbest, order, totals, lm)            the lines of a rescored list, best first
    several                                    can one output hold several lists?
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from selfnorm._util.errors import UserError
from selfnorm._util.files import read_text
from selfnorm.data.tokenizers import Tokenize
from selfnorm.data.vocab import Unknown, Vocab

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Hypothesis:
    words: tuple[str, ...]
    score: float  # acoustic or translation, natural log
    old_lm: float = 0.0  # natural log
    raw: Any = None  # what the format needs to write the line again


@dataclass(frozen=True)
class NBest:
    name: str
    hypotheses: tuple[Hypothesis, ...]
    reference: tuple[str, ...] | None = None
    raw: Any = None  # what the format needs to write the list again


@dataclass
class Reading:
    """Lists read so far, and what could not be: with skip_bad it is counted, otherwise the first stops."""

    skip_bad: bool = False
    skipped: list[str] = field(default_factory=list)

    def bad(self, path: Path, number: int, expected: str, found: str) -> None:
        sentence = f"{path} line {number}: expected {expected}, found {found[:80]!r}"
        if not self.skip_bad:
            raise UserError(sentence + ". Fix it, or skip such lines (--skip-bad).")
        self.skipped.append(sentence)


class Format(Protocol):
    several: bool

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]: ...

    def write(self, nbest: NBest, order: Sequence[int], totals: Array, lm: Array) -> Iterator[str]: ...


def unknown_of(vocab: Vocab, lists: Iterable[NBest], tokenize: Tokenize = str.split) -> Unknown:
    """How many of the lists' words a vocabulary does not know: of <unk> alone nothing can be learnt about log Z."""
    unknown = Unknown(vocab)
    for hypothesis in (h for nbest in lists for h in nbest.hypotheses):
        unknown.add(tokenize(" ".join(hypothesis.words)))
    return unknown


def lines_of(path: Path) -> list[str]:
    """Lines end at newlines only: other separators may stand inside a text."""
    lines = read_text(path).split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def grouped(rows: Iterable[tuple[str, Hypothesis]]) -> Iterator[NBest]:
    """Rows of the same name as one list each."""
    groups: dict[str, list[Hypothesis]] = {}
    for name, hypothesis in rows:
        groups.setdefault(name, []).append(hypothesis)
    for name, hypotheses in groups.items():
        yield NBest(name, tuple(hypotheses))

"""NBest: a list of hypotheses, whatever format it came in.

An id and hypotheses with a score that is not the language model's (acoustic or translation, natural log, larger is
better) and, where there is one, the old language model's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selfnorm.errors import UserError
from selfnorm.text import Unknown, Vocab


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


def unknown_of(vocab: Vocab, lists: Iterable[NBest]) -> Unknown:
    """How many of the lists' words a vocabulary does not know: of <unk> alone nothing can be learnt about log Z."""
    unknown = Unknown(vocab)
    for hypothesis in (h for nbest in lists for h in nbest.hypotheses):
        unknown.add(hypothesis.words)
    return unknown


@dataclass
class Reading:
    """Lists read so far, and what could not be: with skip_bad it is counted, otherwise the first stops."""

    skip_bad: bool = False
    skipped: list[str] = field(default_factory=list)

    def bad(self, path: Path, number: int, expected: str, found: str) -> None:
        sentence = f"{path} line {number}: expected {expected}, found {found[:80]!r}"
        if not self.skip_bad:
            raise UserError(sentence + ". Mend it, or go on without such lines with --skip-bad.")
        self.skipped.append(sentence)

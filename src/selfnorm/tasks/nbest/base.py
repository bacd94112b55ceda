"""NBest: a list of hypotheses, whatever format it came in; and what a format is. Lists are read one after another, never all at once.

Each hypothesis has a score that is not the language model's (acoustic or translation, natural log, larger is better) and, where
there is one, the old language model's score.

A format is a class with

    read(path, reading)                        the lists of a file or folder; bad lines go to reading.bad
    write(nbest, order, totals, lm)            the lines of a rescored list, best first
    several                                    can one output hold several lists?
"""

from __future__ import annotations

import gzip
import math
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from selfnorm._util.errors import UserError
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
    """How lists are read, and what could not be: with skip_bad it is counted, otherwise the first stops.

    beam_size   hypotheses per list, for formats that do not say where a list ends
    paths       of a lattice: so many best ones become the list
    """

    skip_bad: bool = False
    beam_size: int | None = None
    paths: int = 100
    skipped: list[str] = field(default_factory=list)

    def bad(self, path: Path, number: int, expected: str, found: str) -> None:
        """A line (or a hypothesis of it) that is not what was expected."""
        sentence = f"{path} line {number}: expected {expected}, found {found[:80]!r}"
        if not self.skip_bad:
            raise UserError(sentence + ". Fix it, or skip such lines (--skip-bad).")
        self.skipped.append(sentence)

    def repeated(self, path: Path, name: str) -> None:
        """A list whose name another one had."""
        sentence = f"{path}: list {name} comes twice, so their results could not be told apart"
        if not self.skip_bad:
            raise UserError(sentence + ". Rename one, or skip the second (--skip-bad).")
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


STDIN = Path("-")
GZIP = b"\x1f\x8b"  # the first bytes of a gzip file
LONGEST = 1 << 26  # bytes of a line


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a file, of a .gz file, or of stdin (-), one at a time. They end at newlines only."""
    try:
        with opened(path) as handle:
            place = 0
            while line := handle.readline(LONGEST):
                place += 1
                if len(line) == LONGEST:
                    raise UserError(f"{path} line {place} is longer than {LONGEST >> 20} MB. Is it the right file?")
                yield line.decode("utf-8-sig" if place == 1 else "utf-8").removesuffix("\n").removesuffix("\r")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist. Check the path.") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder, but a file was expected.") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} line {place} is not UTF-8 (byte 0x{error.object[error.start]:02x}). "
            "Convert it first, for example with: iconv -f latin1 -t utf-8"
        ) from None


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file or of stdin, unpacked if they are gzip's, whatever the name."""
    stdin = path == STDIN
    if stdin and sys.stdin is None:
        raise UserError("stdin is closed: give a file.")
    with open(sys.stdin.fileno() if stdin else path, "rb", closefd=not stdin) as handle:
        if path.suffix != ".gz" and handle.peek(2)[:2] != GZIP:
            yield handle
            return
        try:
            with gzip.GzipFile(fileobj=handle) as unpacked:
                yield cast(IO[bytes], unpacked)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UserError(f"{path} is not a whole gzip file: {error}.") from None


def stem(path: Path, suffix: str = "") -> str:
    """The name of a file without .gz and the format's own ending."""
    return path.name.removesuffix(".gz").removesuffix(suffix)


def number(text: str) -> float | None:
    """A finite number, or None."""
    if "_" in text:
        return None  # Python would take 1_000
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def grouped(path: Path, reading: Reading, rows: Iterable[tuple[int, str, Hypothesis]]) -> Iterator[NBest]:
    """Rows (line, name, hypothesis): neighbours of the same name are one list. A name that comes back later is a bad line."""
    now: str | None = None
    held: list[Hypothesis] = []
    seen = set[str]()
    for place, name, hypothesis in rows:
        if name != now:
            if name in seen:
                reading.bad(path, place, "the lines of a list next to each other", f"{name} again")
                continue
            if now is not None:
                yield NBest(now, tuple(held))
            now, held = name, []
            seen.add(name)
        held.append(hypothesis)
    if now is not None:
        yield NBest(now, tuple(held))

"""Read text files as lines: plain or .xz, UTF-8, line by line, with errors that name the line."""

from __future__ import annotations

import codecs
import hashlib
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from selfnorm._util.errors import UserError
from selfnorm.data.sources.base import Lines

PIECE = 1 << 20
FREE, RATIO = 1 << 26, 200  # an .xz file may unpack to 64 MB, and beyond that to 200 times its size: text needs 10


@dataclass(frozen=True)
class Scanned:
    """A text that was read once: its sha256, its number of lines, and how to read its lines again."""

    sha256: str
    count: int
    lines: Lines


def read_bytes(path: Path) -> bytes:
    """A whole text, for those that are compared with a checksum."""
    with _opened(path) as handle:
        return b"".join(_pieces(handle, path)).removeprefix(codecs.BOM_UTF8)


def scan(path: Path) -> Scanned:
    """Read a text once in pieces, so that a large one is never held as a whole."""
    total, count, last, blank, first = hashlib.sha256(), 0, b"\n", True, True
    with _opened(path) as handle:
        state = path.stat()
        for piece in _pieces(handle, path):
            piece = piece.removeprefix(codecs.BOM_UTF8) if first else piece
            first, blank = False, blank and not piece.strip()
            total.update(piece)
            count, last = count + piece.count(b"\n"), piece[-1:] or last
    if blank:
        raise UserError(f"{path} is empty. Text with one sentence per line was expected.")

    def lines() -> Iterator[str]:
        with _opened(path) as handle:
            if (path.stat().st_size, path.stat().st_mtime_ns) != (state.st_size, state.st_mtime_ns):
                raise UserError(f"{path} was changed while it was read. Run it again.")
            for number, line in enumerate(_lines_in(_pieces(handle, path)), 1):
                yield _decoded(line.removeprefix(codecs.BOM_UTF8) if number == 1 else line, str(path), number)

    return Scanned(total.hexdigest(), count + (last != b"\n"), lines)


def lines_of(text: bytes, name: str) -> Lines:
    """The lines of a text; they end at newlines only."""
    if not text.strip():
        raise UserError(f"{name} is empty. Text with one sentence per line was expected.")
    return lambda: (_decoded(line, name, number) for number, line in enumerate(_lines_in(iter([text])), 1))


def _lines_in(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest: list[bytes] = []
    for piece in pieces:
        first, *more = piece.split(b"\n")
        rest.append(first)
        for line in more:
            yield b"".join(rest)
            rest = [line]
    if last := b"".join(rest):
        yield last


def _decoded(line: bytes, name: str, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        if b"\0" in line:
            raise UserError(f"{name} line {number} holds zero bytes: it is a binary file, not text.") from None
        raise UserError(
            f"{name} line {number} is not UTF-8 (byte 0x{line[error.start]:02x}). "
            "Convert the file first, for example with: iconv -f latin1 -t utf-8"
        ) from None


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder; for a folder of train, valid and test files use data.folder.")
        if path.exists() and not path.is_file():
            raise UserError(f"{path} is not a regular file. A text is read more than once: give a file.")
        opened: IO[bytes] = lzma.open(path) if path.suffix == ".xz" else path.open("rb")  # noqa: SIM115
    except (FileNotFoundError, ValueError):  # no path has a NUL in it
        raise UserError(f"{str(path)!r} does not exist. Check data.file or data.folder.") from None
    with opened as handle:
        yield handle


def _pieces(handle: IO[bytes], path: Path) -> Iterator[bytes]:
    most, total = FREE + RATIO * path.stat().st_size, 0
    try:
        while piece := handle.read(PIECE):
            total += len(piece)
            if path.suffix == ".xz" and total > most:
                raise UserError(f"{path} unpacks to more than {most / 1e6:,.0f} MB. Text does not: it was not read.")
            yield piece
    except (lzma.LZMAError, EOFError):
        raise UserError(f"{path} is not a whole .xz file. Copy it again.") from None

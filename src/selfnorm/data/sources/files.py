"""Read text files as lines: plain or .xz, UTF-8, with errors that name the line."""

from __future__ import annotations

import codecs
import lzma
from collections.abc import Iterator
from pathlib import Path

from selfnorm._util.errors import UserError
from selfnorm.data.sources.base import Lines


def read_bytes(path: Path) -> bytes:
    try:
        text = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        return text.removeprefix(codecs.BOM_UTF8)
    except (FileNotFoundError, ValueError):  # no path has a NUL in it
        raise UserError(f"{str(path)!r} does not exist. Check data.file or data.folder.") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; for a folder of train, valid and test files use data.folder.") from None
    except lzma.LZMAError:
        raise UserError(f"{path} is not a whole .xz file. Copy it again.") from None


def lines_of(text: bytes, name: str) -> Lines:
    """The lines of a text; they end at newlines only."""
    if not text.strip():
        raise UserError(f"{name} is empty. Text with one sentence per line was expected.")

    def lines() -> Iterator[str]:
        pieces = text.split(b"\n")
        for number, piece in enumerate(pieces[:-1] if not pieces[-1] else pieces, 1):
            try:
                yield piece.decode("utf-8")
            except UnicodeDecodeError as error:
                if b"\0" in piece:
                    raise UserError(f"{name} line {number} holds zero bytes: it is a binary file, not text.") from None
                raise UserError(
                    f"{name} line {number} is not UTF-8 (byte 0x{piece[error.start]:02x}). "
                    "Convert the file first, for example with: iconv -f latin1 -t utf-8"
                ) from None

    return lines

"""The training novels of the Microsoft Sentence Completion Challenge, as shuffled sentences.

Each file is a Project Gutenberg etext: header and closing notice are removed, hard-wrapped lines are joined into
paragraphs, paragraphs are split into sentences. The archive is read as a stream; nothing is unpacked to disk.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self, cast

from selfnorm._util.errors import UserError
from selfnorm.config.recipe import Data
from selfnorm.data.sources.base import Lines, Source, data_folder
from selfnorm.data.tokenizers import sentences_of

NAMES = (
    "Holmes_Training_Data.tar.xz",
    "Holmes_Training_Data.tar.gz",
    "Holmes_Training_Data.tar",
    "Holmes_Training_Data",
)
ENDING = re.compile(r"\bEnd of (?:the |this )?Project Gutenberg", re.IGNORECASE)
LARGEST = 1 << 26  # bytes of a novel
KNOWN = {"0062997f75557b76540263d0": {"train": 51_108_826, "valid": 114_769, "test": 115_001}}  # tokens, by sha256
END_MARKER = "end of file header"  # tarfile's word for a block of zeros
GAP = re.compile(r"\n[ \t]*\n")


def source(data: Data) -> Source:
    """Sentences of all novels in the archive's order."""
    folder = data_folder(data.folder)
    if folder is None:
        raise UserError(
            "mscc needs the folder that holds Holmes_Training_Data.tar.xz: name it with data.folder or SELFNORM_DATA."
        )
    places = [base / name for base in (folder, folder / "mscc") for name in NAMES]
    found = next((path for path in places if path.exists()), None)
    if found is None:
        raise UserError(f"{NAMES[0]} (or the unpacked folder) is not in {folder} nor in {folder / 'mscc'}.")
    stamp = _digest_of_folder(found) if found.is_dir() else _digest(found)
    splits: dict[str, Lines] = {"train": lambda: _sentences(found)}
    return Source(splits, f"mscc-{stamp}", min_count=10, tokens="words", expected=KNOWN.get(stamp, {}), held_out=5_000)


def _digest(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()[:24]


def _digest_of_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in _novels(folder):
        digest.update(f"{file.relative_to(folder).as_posix()}\0{_digest(file)}\n".encode())
    return digest.hexdigest()[:24]


def _novels(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.suffix.upper() == ".TXT" and file.is_file())


def _sentences(path: Path) -> Iterator[str]:
    for text in _texts(path):
        for paragraph in GAP.split(body(text)):
            yield from sentences_of(" ".join(paragraph.split()))


def _texts(path: Path) -> Iterator[str]:
    if path.is_dir():
        for file in _novels(path):
            yield file.read_bytes().decode("latin-1")
        return
    try:
        with _unpacked(path) as handle, tarfile.open(fileobj=handle, mode="r|", tarinfo=Member) as archive:
            for member in archive:
                if not member.isfile() or not member.name.upper().endswith(".TXT"):
                    continue
                if member.size > LARGEST:
                    raise UserError(f"{path}: {member.name} has {member.size / 1e6:,.0f} MB, which no novel has.")
                novel = archive.extractfile(member)
                if novel is not None:
                    yield novel.read().decode("latin-1")
            while handle.read(1 << 20):  # to the end, where gzip and xz have their checksums
                pass
    except (tarfile.TarError, lzma.LZMAError, EOFError, zlib.error, OSError) as error:
        raise UserError(f"{path} is not a whole archive ({error}). Copy it again.") from None


def _unpacked(path: Path) -> IO[bytes]:
    """The archive uncompressed. tarfile's own stream of a .gz never looks at its checksum."""
    with path.open("rb") as handle:
        first = handle.read(6)
    if first[:2] == b"\x1f\x8b":
        return cast(IO[bytes], gzip.open(path))
    return lzma.open(path) if first == b"\xfd7zXZ\0" else path.open("rb")


class Member(tarfile.TarInfo):
    """A header of an archive. tarfile takes a damaged one for the end, and everything after it would be missing unsaid."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.HeaderError as error:
            if str(error) == END_MARKER:
                raise
            raise tarfile.ReadError(f"{error}, before its end marker") from None


def body(text: str) -> str:
    """The novel itself: after the last line with *END and SMALL PRINT, before the first closing notice after it."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = end = 0
    for line in text.split("\n"):  # no pattern with two stars in a row: a long line would take the square of its length
        end += len(line) + 1
        start = end - 1 if "SMALL PRINT" in line and "*END" in line else start
    middle = max(start, len(text) // 2)
    if middle and text[middle - 1] != "\n":
        middle = text.find("\n", middle) + 1 or len(text)
    ending = ENDING.search(text, middle)
    return text[start : text.rfind("\n", 0, ending.start()) + 1 if ending else len(text)]

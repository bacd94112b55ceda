"""A text of the user's own: one file, split here, or a folder of train, valid and test files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from selfnorm._util.errors import UserError
from selfnorm.config.recipe import Data
from selfnorm.data.sources.base import SPLITS, Lines, Source
from selfnorm.data.sources.files import lines_of, read_bytes
from selfnorm.data.tokenizers import suited_to


def one_file(data: Data) -> Source:
    """Split one text: of every 20 blocks of 50 lines, one is for validation and one for testing."""
    text = read_bytes(data.path)
    numbered = list(enumerate(lines_of(text, str(data.path))()))
    block = max(1, min(50, len(numbered) // 40))

    def part(wanted: Callable[[int], bool]) -> Lines:
        return lambda: (line for number, line in numbered if wanted(number // block % 20))

    lines = {
        "train": part(lambda b: b < 18),
        "valid": part(lambda b: b == 18),
        "test": part(lambda b: b == 19),
    }
    tokens = data.tokens or suited_to(line for _, line in numbered)
    return Source(lines, hashlib.sha256(text).hexdigest()[:32], min_count=2, tokens=tokens)


def folder_of_splits(data: Data) -> Source:
    """A folder with exactly one file each whose name contains train, valid and test."""
    folder, lines, digests = Path(data.folder), {}, []
    if not folder.is_dir():
        raise UserError(f"data.folder = {folder} is not a folder.")
    for split in SPLITS:
        paths = sorted(p for p in folder.iterdir() if split in p.name and p.suffix in (".txt", ".tokens", ".xz", ""))
        if len(paths) != 1:
            raise UserError(
                f"{folder} must hold exactly one {split} file (a name with '{split}' in it, .txt, .tokens or .xz); "
                f"found {len(paths)}: {', '.join(p.name for p in paths) or 'none'}."
            )
        text = read_bytes(paths[0])
        lines[split] = lines_of(text, str(paths[0]))
        digests.append(hashlib.sha256(text).hexdigest()[:16])
    return Source(lines, "-".join(digests), min_count=2, tokens=data.tokens or suited_to(lines["train"]()))

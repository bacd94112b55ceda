"""A text of the user's own: one file, split here, or a folder of train, valid and test files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from selfnorm._util.errors import UserError
from selfnorm.config.recipe import Data
from selfnorm.data.sources.base import SPLITS, Lines, Source
from selfnorm.data.sources.files import scan
from selfnorm.data.tokenizers import suited_to


def one_file(data: Data) -> Source:
    """Split one text: of every 20 blocks of 50 lines, one is for validation and one for testing."""
    text = scan(data.path)
    block = max(1, min(50, text.count // 40))

    def part(wanted: Callable[[int], bool]) -> Lines:
        return lambda: (line for number, line in enumerate(text.lines()) if wanted(number // block % 20))

    lines = {
        "train": part(lambda b: b < 18),
        "valid": part(lambda b: b == 18),
        "test": part(lambda b: b == 19),
    }
    return Source(lines, text.sha256[:32], min_count=2, tokens=data.tokens or suited_to(text.lines()))


def folder_of_splits(data: Data) -> Source:
    """A folder with exactly one file each whose name contains train, valid and test."""
    folder, texts = Path(data.folder), {}
    if not folder.is_dir():
        raise UserError(f"data.folder = {folder} is not a folder.")
    for split in SPLITS:
        paths = sorted(p for p in folder.iterdir() if split in p.name and p.suffix in (".txt", ".tokens", ".xz", ""))
        if len(paths) != 1:
            raise UserError(
                f"{folder} must hold exactly one {split} file (a name with '{split}' in it, .txt, .tokens or .xz); "
                f"found {len(paths)}: {', '.join(p.name for p in paths) or 'none'}."
            )
        texts[split] = scan(paths[0])
    lines = {split: text.lines for split, text in texts.items()}
    fingerprint = "-".join(text.sha256[:16] for text in texts.values())
    return Source(lines, fingerprint, min_count=2, tokens=data.tokens or suited_to(lines["train"]()))

"""Source: what every text source gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from selfnorm._util.errors import UserError

SPLITS = ("train", "valid", "test")
Lines = Callable[[], Iterator[str]]


@dataclass(frozen=True)
class Source:
    """Lines by split, what identifies them, and what their counts must be."""

    splits: dict[str, Lines]
    fingerprint: str
    min_count: int = 1
    tokens: str = "whitespace"  # the tokenizer (data/tokenizers.py)
    expected: dict[str, int] = field(default_factory=dict)  # tokens per split with <eos>, and V
    held_out: int = 0  # sentences for valid and for test, taken after shuffling; 0 keeps the splits as they are


def data_folder(folder: str) -> Path | None:
    """The folder the user named, or SELFNORM_DATA, or nothing."""
    named = folder or os.environ.get("SELFNORM_DATA", "")
    if not named:
        return None
    if not Path(named).is_dir():
        raise UserError(
            f"{named} is not a folder. Name the folder that holds the text files with data.folder or SELFNORM_DATA."
        )
    return Path(named)

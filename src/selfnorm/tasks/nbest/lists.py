"""Read n-best lists in any registered format, and write them again, rescored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from selfnorm._util.errors import UserError
from selfnorm.registry import load
from selfnorm.registry.formats import FORMATS
from selfnorm.tasks.nbest.base import Format, NBest, Reading, lines_of
from selfnorm.tasks.rescoring import Table, Weights


def format_of(name: str) -> Format:
    made: Format = load(FORMATS.find(name).make)()
    return made


def read_lists(path: Path, form: str, skip_bad: bool = False) -> tuple[list[NBest], list[str]]:
    """All lists of a file or folder, and the lines that were skipped."""
    chosen = format_of(form)
    if not path.exists():
        raise UserError(f"{path} does not exist. Check the path of the lists.")
    reading = Reading(skip_bad)
    lists = list(chosen.read(path, reading))
    if not lists:
        raise UserError(f"{path} holds no {form} list. Is it the right format (--format)?")
    return lists, reading.skipped


def read_references(path: Path) -> dict[str, str]:
    """Lines "name words…" to words by name."""
    lines = (line.split() for line in lines_of(path) if line.strip())
    return {name: " ".join(words) for name, *words in lines}


def written(lists: Sequence[NBest], tables: Sequence[Table], weights: Weights, what: str, form: str) -> Iterator[str]:
    """1best: name and words. scores: name, place, the model's score. nbest: the format's own lines, best first."""
    chosen = format_of(form)
    if what == "nbest" and not chosen.several and len(lists) > 1:
        raise UserError(
            f"{form} has one file per utterance, so lines of several could not be told apart. Rescore one file at a time, or "
            "write 1best or scores (--print)."
        )
    for nbest, table in zip(lists, tables, strict=True):
        totals = weights.total(table.rows)
        order = [int(i) for i in np.argsort(-totals, kind="stable")]
        if what == "1best":
            words = nbest.hypotheses[order[0]].words if order else ()
            yield " ".join([nbest.name, *words])
        elif what == "scores":
            yield from (f"{nbest.name} {place} {row[3]:.4f}" for place, row in enumerate(table.rows))
        else:
            yield from chosen.write(nbest, order, totals, table.rows[:, 3])

"""Read n-best lists in any registered format, one after another, and write them again, rescored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np

from selfnorm._util.errors import UserError
from selfnorm.registry import load
from selfnorm.registry.formats import FORMATS
from selfnorm.tasks.nbest.base import STDIN, Format, NBest, Reading
from selfnorm.tasks.rescoring import Table, Weights


def format_of(name: str) -> Format:
    made: Format = load(FORMATS.find(name).make)()
    return made


def stream_lists(path: Path, form: str, reading: Reading) -> Iterator[NBest]:
    """The lists of a file, folder or stdin (-), one at a time. A file without a list is refused."""
    chosen = format_of(form)
    if path != STDIN and not path.exists():
        raise UserError(f"{path} does not exist. Check the path of the lists.")
    if reading.beam_size is not None and reading.beam_size < 1:
        raise UserError(f"--beam-size {reading.beam_size}: the number of hypotheses per list was expected.")
    if reading.paths < 1:
        raise UserError(f"--paths {reading.paths}: a number of at least 1 was expected.")
    names = set[str]()
    for nbest in chosen.read(path, reading):
        if nbest.name in names:
            reading.repeated(path, nbest.name)
            continue
        names.add(nbest.name)
        yield nbest
    if not names:
        raise UserError(f"{path} holds no {form} list. Is it the right format (--format)?")


def read_lists(path: Path, form: str, skip_bad: bool = False) -> tuple[list[NBest], list[str]]:
    """All lists of a file or folder, and the lines that were skipped."""
    reading = Reading(skip_bad)
    return list(stream_lists(path, form, reading)), reading.skipped


class Writer:
    """Lines of rescored lists. 1best: name and words. scores: name, place, the model's score. nbest: the format's own lines."""

    def __init__(self, what: str, form: str, weights: Weights) -> None:
        self.what, self.form, self.weights = what, form, weights
        self.format, self.lists = format_of(form), 0

    def lines(self, nbest: NBest, table: Table) -> Iterator[str]:
        self.lists += 1
        if self.what == "nbest" and not self.format.several and self.lists > 1:
            raise UserError(
                f"{self.form} has one file per utterance, so lines of several could not be told apart. Rescore one file at a time, or "
                "write 1best or scores (--print)."
            )
        totals = self.weights.total(table.rows)
        order = [int(i) for i in np.argsort(-totals, kind="stable")]
        if self.what == "1best":
            words = nbest.hypotheses[order[0]].words if order else ()
            yield " ".join([escaped(nbest.name), *words])
        elif self.what == "scores":
            yield from (f"{escaped(nbest.name)} {place} {row[3]:.4f}" for place, row in enumerate(table.rows))
        else:
            yield from self.format.write(nbest, order, totals, table.rows[:, 3])


def escaped(name: str) -> str:
    """A name as one field of a line: where it holds white space it is percent-encoded."""
    return quote(name, safe="/:@+=,()[]") if not name or any(c.isspace() for c in name) else name

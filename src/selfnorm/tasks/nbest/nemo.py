"""NeMo: words, a tab and a score a line; a blank line ends a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from selfnorm._util.files import read_text
from selfnorm.tasks.nbest.base import Array, Hypothesis, NBest, Reading, grouped, number


class Nemo:
    """Rescored lists have the total for their one score."""

    several = True

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]:
        rows, name = [], 0
        for place, line in enumerate(read_text(path).split("\n"), 1):
            if not line.strip():
                name += 1
                continue
            text, tab, score = line.rpartition("\t")
            value = number(score)
            if not tab or value is None:
                reading.bad(path, place, "words, a tab and a score", line)
                continue
            rows.append((str(name), Hypothesis(tuple(text.split()), value, 0.0, line)))
        return grouped(rows)

    def write(self, nbest: NBest, order: Sequence[int], totals: Array, lm: Array) -> Iterator[str]:
        yield from (f"{' '.join(nbest.hypotheses[i].words)}\t{totals[i]:.4f}" for i in order)
        yield ""  # a blank line ends a list

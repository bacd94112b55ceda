"""Moses: 0 ||| words ||| LM0= -3 Dist0= 1 ||| -5.2 a line; the old LM is the feature named LM0, weight 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from selfnorm.tasks.nbest.base import Array, Hypothesis, NBest, Reading, grouped, lines_of, number


class Moses:
    """Rescored lists get a feature selfnorm= and a new total."""

    several = True

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]:
        return grouped(path, reading, _rows(path, reading))

    def write(self, nbest: NBest, order: Sequence[int], totals: Array, lm: Array) -> Iterator[str]:
        for i in order:
            raw, words = nbest.hypotheses[i].raw, " ".join(nbest.hypotheses[i].words)
            fields = [nbest.name, words, f"{raw[2]} selfnorm= {lm[i]:.4f}", f"{totals[i]:.4f}", *raw[4:]]
            yield " ||| ".join(fields)


def _rows(path: Path, reading: Reading) -> Iterator[tuple[int, str, Hypothesis]]:
    for place, line in enumerate(lines_of(path), 1):
        parts = [part.strip() for part in line.split("|||")]
        total = number(parts[3]) if len(parts) >= 4 else None
        old = _feature(parts[2], "LM0=") if len(parts) >= 4 else None
        if total is None or old is None:
            reading.bad(path, place, "id ||| words ||| features ||| total", line)
        else:
            yield place, parts[0], Hypothesis(tuple(parts[1].split()), total, old, parts)


def _feature(text: str, name: str) -> float | None:
    """The number after a feature's name; 0 where the feature is absent, None where it is not a number."""
    words = text.split()
    if name not in words:
        return 0.0
    return number(([*words, ""])[words.index(name) + 1])

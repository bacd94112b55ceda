"""HTK lattices (SLF): one file per utterance, or a folder of them (.slf, .lat, .gz of each); the n best paths become the list."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from selfnorm.tasks.nbest.base import Array, Hypothesis, NBest, Reading, lines_of, number, stem
from selfnorm.tasks.nbest.lattice import Arc, Lattice

LONG = {"START": "S", "END": "E", "WORD": "W", "acoustic": "a", "language": "l"}  # long names of fields
SILENT = ("!NULL", "!ENTER", "!EXIT", "<s>", "</s>", "!SENT_START", "!SENT_END")


class Slf:
    """Rescored lists are lines: acoustic score, LM score, number of words, words, natural logs (a lattice cannot be written again)."""

    several = False

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]:
        for file in sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]:
            try:
                hypotheses = _lattice(file).best(reading.paths)
            except ValueError as error:
                reading.bad(file, getattr(error, "line", 1), str(error), "a lattice that is not so")
                continue
            yield NBest(stem(file, ".slf").removesuffix(".lat"), tuple(hypotheses))

    def write(self, nbest: NBest, order: Sequence[int], totals: Array, lm: Array) -> Iterator[str]:
        for i in order:
            h: Hypothesis = nbest.hypotheses[i]
            yield f"{h.score:.4f} {lm[i]:.4f} {len(h.words)} {' '.join(h.words)}"


class _Bad(ValueError):
    def __init__(self, line: int, expected: str) -> None:
        super().__init__(expected)
        self.line = line


def _lattice(file: Path) -> Lattice:
    head: dict[str, str] = {}
    words: dict[int, str] = {}
    arcs: list[Arc] = []
    base = 1.0
    for place, line in enumerate(lines_of(file), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = {LONG.get(key, key): value for key, _, value in (part.partition("=") for part in line.split())}
        if "I" in fields:
            words[_int(fields["I"], place)] = _word(fields.get("W", ""))
        elif "J" in fields:
            arcs.append(_arc(fields, words, base, place))
        else:
            head |= fields
            base = _scale(head.get("base", "e"), place)
    if not arcs:
        raise _Bad(1, "an HTK lattice with lines I= and J=")
    ends = {a.end for a in arcs} - {a.start for a in arcs}
    starts = {a.start for a in arcs} - {a.end for a in arcs}
    first = _int(head["start"], 1) if "start" in head else min(starts, default=arcs[0].start)
    last = {_int(head["end"], 1)} if "end" in head else ends
    return Lattice(arcs, first, dict.fromkeys(last, (0.0, 0.0)))


def _arc(fields: dict[str, str], words: dict[int, str], base: float, place: int) -> Arc:
    start, end = _int(fields.get("S", ""), place), _int(fields.get("E", ""), place)
    scores = [number(fields.get(name, "0")) for name in ("a", "l")]
    if scores[0] is None or scores[1] is None:
        raise _Bad(place, "a= and l= to be numbers")
    return Arc(
        start, end, _word(fields["W"]) if "W" in fields else words.get(end, ""), base * scores[0], base * scores[1]
    )


def _word(word: str) -> str:
    return "" if word in SILENT else word


def _int(text: str, place: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise _Bad(place, "node numbers after I=, S= and E=")
    return int(text)


def _scale(base: str, place: int) -> float:
    """What turns a score of the file into a natural log."""
    if base == "e":
        return 1.0
    value = number(base)
    if value is None or value <= 1:
        raise _Bad(place, "base= to be a number above 1")
    return math.log(value)

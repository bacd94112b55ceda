"""Kaldi lattices as text: utterance, then lines "from to word graph,acoustic,alignment" and "final costs", a blank line at the end.

Lattices that lattice-copy writes with ark,t: and compact ones; words are symbols (int2sym.pl -f 3) or numbers as they are. The n
best paths of each become a list. Linear lattices of lattice-to-nbest, keys utterance-1, utterance-2, …, are one list together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from selfnorm.tasks.nbest.base import Array, Hypothesis, NBest, Reading, lines_of, number
from selfnorm.tasks.nbest.lattice import Arc, Lattice

EXPECTED = "from to word graph,acoustic,alignment"
SILENT = ("0", "<eps>")


class KaldiLattice:
    """Rescored lists are lines: utterance-n words."""

    several = True

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]:
        held: list[Hypothesis] = []  # of linear lattices that belong together
        base = ""
        for name, hypotheses, linear in _lists(path, reading):
            parts = name.rpartition("-")
            if held and (parts[0] != base or parts[2] != str(len(held) + 1) or not linear):
                yield NBest(base, tuple(held))
                held = []
            if linear and parts[2] == str(len(held) + 1):
                base = parts[0]
                held.append(Hypothesis(hypotheses[0].words, hypotheses[0].score, hypotheses[0].old_lm, name))
            else:
                yield NBest(name, tuple(hypotheses))
        if held:
            yield NBest(base, tuple(held))

    def write(self, nbest: NBest, order: Sequence[int], totals: Array, lm: Array) -> Iterator[str]:
        yield from (f"{nbest.hypotheses[i].raw} {' '.join(nbest.hypotheses[i].words)}" for i in order)


def _lists(path: Path, reading: Reading) -> Iterator[tuple[str, list[Hypothesis], bool]]:
    """Name, n best paths, and whether the lattice has one path only."""
    for lines in _blocks(path):
        place, name = lines[0][0], lines[0][1].strip()
        try:
            lattice = _lattice(lines[1:])
            best = lattice.best(reading.paths)
        except ValueError as error:
            reading.bad(path, place, f"{error} in the lattice {name}", lines[1][1] if len(lines) > 1 else "")
            continue
        hypotheses = [Hypothesis(h.words, h.score, h.old_lm, f"{name}-{i}") for i, h in enumerate(best, 1)]
        yield name, hypotheses, lattice.linear


def _blocks(path: Path) -> Iterator[list[tuple[int, str]]]:
    """Lines between blank lines, with their numbers."""
    for blank, lines in groupby(enumerate(lines_of(path), 1), key=lambda line: not line[1].strip()):
        if not blank:
            yield list(lines)


def _lattice(lines: list[tuple[int, str]]) -> Lattice:
    lattice = Lattice()
    for place, line in lines:
        parts = line.split()
        nodes = [int(p) for p in parts[:2] if p.isascii() and p.isdigit() and len(p) < 12]
        if len(parts) >= 3 and len(nodes) == 2:
            word = "" if parts[2] in SILENT else parts[2]
            lattice.arcs.append(Arc(nodes[0], nodes[1], word, *_costs(parts[3] if len(parts) > 3 else "0,0", place)))
        elif len(parts) in (1, 2) and nodes:
            lattice.final[nodes[0]] = _costs(parts[1] if len(parts) == 2 else "0,0", place)
        else:
            raise ValueError(f"{EXPECTED} on line {place}")
    if lattice.arcs:
        lattice.start = lattice.arcs[0].start
    return lattice


def _costs(text: str, place: int) -> tuple[float, float]:
    """graph,acoustic,… as (acoustic score, language model score): costs are negative logs."""
    numbers = [number(part) for part in text.split(",")[:2]]
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        raise ValueError(f"{EXPECTED} on line {place}")
    return -numbers[1], -numbers[0]

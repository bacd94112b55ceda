"""Kaldi: a folder with words_text (utterance-n words) and costs: acwt, lmwt.nolm, lmwt.lmonly (utterance-n cost)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from selfnorm._util.errors import UserError
from selfnorm.tasks.nbest.base import Array, Hypothesis, NBest, Reading, grouped, lines_of, number


class Kaldi:
    """Rescored lists are lines of words_text, which has no place for a score."""

    several = True

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]:
        words_file = path / "words_text"
        if not words_file.is_file():
            raise UserError(
                f"{path} has no words_text. A Kaldi n-best folder holds words_text, acwt, lmwt.nolm and lmwt.lmonly."
            )
        costs = {name: _costs(path / name, reading) for name in ("acwt", "lmwt.nolm", "lmwt.lmonly")}
        if not costs["acwt"] and not costs["lmwt.nolm"]:
            raise UserError(f'{path} has no costs: acwt or lmwt.nolm with lines "utterance-number cost" was expected.')
        rows = []
        for place, line in enumerate(lines_of(words_file), 1):
            key, *rest = line.split(maxsplit=1) or [""]
            name, dash, rank = key.rpartition("-")
            if not dash or not rank.isdigit():
                reading.bad(words_file, place, "utterance-number words", line)
                continue
            absent = [file for file, known in costs.items() if known and key not in known]
            if absent:
                reading.bad(words_file, place, f"a cost for {key} in {absent[0]}", line)
                continue
            acoustic = costs["acwt"].get(key, 0.0) + costs["lmwt.nolm"].get(key, 0.0)
            words = tuple(" ".join(rest).split())
            rows.append((name, Hypothesis(words, -acoustic, -costs["lmwt.lmonly"].get(key, 0.0), key)))
        return grouped(rows)

    def write(self, nbest: NBest, order: Sequence[int], totals: Array, lm: Array) -> Iterator[str]:
        yield from (f"{nbest.hypotheses[i].raw} {' '.join(nbest.hypotheses[i].words)}" for i in order)


def _costs(path: Path, reading: Reading) -> dict[str, float]:
    costs = {}
    for place, line in enumerate(lines_of(path) if path.exists() else [], 1):
        parts = line.split()
        value = number(parts[1]) if len(parts) == 2 else None
        if value is None:
            reading.bad(path, place, "utterance-number cost", line)
        else:
            costs[parts[0]] = value
    return costs

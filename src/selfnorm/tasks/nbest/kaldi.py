"""Kaldi: a folder with words_text (utterance-n words) and costs: acwt, lmwt.nolm, lmwt.lmonly (utterance-n cost), or .gz of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from selfnorm._util.errors import UserError
from selfnorm.tasks.nbest.base import Array, Hypothesis, NBest, Reading, grouped, lines_of, number


class Kaldi:
    """Rescored lists are lines of words_text, which has no place for a score."""

    several = True

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]:
        words_file = _file(path, "words_text")
        if words_file is None:
            raise UserError(
                f"{path} has no words_text. A Kaldi n-best folder holds words_text, acwt, lmwt.nolm and lmwt.lmonly."
            )
        costs = {
            name: _Costs(file, reading) for name in ("acwt", "lmwt.nolm", "lmwt.lmonly") if (file := _file(path, name))
        }
        if not {"acwt", "lmwt.nolm"} & set(costs):
            raise UserError(f'{path} has no costs: acwt or lmwt.nolm with lines "utterance-number cost" was expected.')
        return grouped(words_file, reading, _rows(words_file, costs, reading))

    def write(self, nbest: NBest, order: Sequence[int], totals: Array, lm: Array) -> Iterator[str]:
        yield from (f"{nbest.hypotheses[i].raw} {' '.join(nbest.hypotheses[i].words)}" for i in order)


def _rows(file: Path, costs: dict[str, _Costs], reading: Reading) -> Iterator[tuple[int, str, Hypothesis]]:
    for place, line in enumerate(lines_of(file), 1):
        key, *rest = line.split(maxsplit=1) or [""]
        name, dash, rank = key.rpartition("-")
        if not dash or not (rank.isascii() and rank.isdigit()):
            reading.bad(file, place, "utterance-number words", line)
            continue
        known = {kind: column.of(key) for kind, column in costs.items()}
        absent = [kind for kind, cost in known.items() if cost is None]
        if absent:
            reading.bad(file, place, f"a cost for {key} in {absent[0]}", line)
            continue
        acoustic = (known.get("acwt") or 0.0) + (known.get("lmwt.nolm") or 0.0)
        words = tuple(" ".join(rest).split())
        yield place, name, Hypothesis(words, -acoustic, -(known.get("lmwt.lmonly") or 0.0), key)


def _file(folder: Path, name: str) -> Path | None:
    return next((file for file in (folder / name, folder / f"{name}.gz") if file.is_file()), None)


class _Costs:
    """Costs by utterance and number, read only as far as they are asked for: files in the same order stay small in memory."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path, self.reading = path, reading
        self.lines, self.ahead = enumerate(lines_of(path), 1), dict[str, float]()

    def of(self, key: str) -> float | None:
        if key in self.ahead:
            return self.ahead.pop(key)
        for place, line in self.lines:
            parts = line.split()
            value = number(parts[1]) if len(parts) == 2 else None
            if value is None:
                self.reading.bad(self.path, place, "utterance-number cost", line)
            elif parts[0] == key:
                return value
            else:
                self.ahead[parts[0]] = value
        return None

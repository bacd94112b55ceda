"""ESPnet: a folder with 1best_recog/, 2best_recog/, …, each with text (utterance words) and score (utterance number)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from selfnorm._util.errors import UserError
from selfnorm.tasks.nbest.base import Array, Hypothesis, NBest, Reading, lines_of, number

FOLDER = re.compile(r"(\d+)best_recog")
TENSOR = re.compile(r"tensor\((-?[\d.eE+-]+).*\)")


class Espnet:
    """Rescored lists are lines: utterance-n words. The files are read side by side; all must name the same utterances in order."""

    several = True

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]:
        found = [f for f in path.iterdir() if f.is_dir() and FOLDER.fullmatch(f.name)] if path.is_dir() else []
        folders = sorted(found, key=lambda f: int(f.name.removesuffix("best_recog")))
        if not folders:
            raise UserError(
                f"{path} has no folder 1best_recog. ESPnet writes 1best_recog, 2best_recog, … with text and score."
            )
        missing = set(range(1, len(folders) + 1)) - {int(f.name.removesuffix("best_recog")) for f in folders}
        if missing:
            raise UserError(f"{path} has {len(folders)} folders of ranks, but not {min(missing)}best_recog.")
        texts = [(f / "text", enumerate(lines_of(f / "text"), 1)) for f in folders]
        scores = [(f / "score", enumerate(lines_of(f / "score"), 1)) for f in folders]
        for place, line in texts[0][1]:
            name = (line.split() or [""])[0]
            words = [line.split()[1:], *(_fields(file, lines, name) for file, lines in texts[1:])]
            numbers = [" ".join(_fields(file, lines, name)) for file, lines in scores]
            hypotheses = []
            for rank, (said, text) in enumerate(zip(words, numbers, strict=True)):
                score = _score(text)
                if score is None:
                    reading.bad(scores[rank][0], place, f"{name} and a number", text)
                else:
                    hypotheses.append(Hypothesis(tuple(said), score, 0.0, f"{name}-{rank + 1}"))
            if hypotheses:
                yield NBest(name, tuple(hypotheses))
        for file, lines in (*texts[1:], *scores):
            place, line = next(((place, line) for place, line in lines if line.strip()), (0, ""))
            if place:
                raise UserError(f"{file} line {place}: 1best_recog/text has no more lines, found {line[:60]!r}.")

    def write(self, nbest: NBest, order: Sequence[int], totals: Array, lm: Array) -> Iterator[str]:
        yield from (f"{nbest.hypotheses[i].raw} {' '.join(nbest.hypotheses[i].words)}" for i in order)


def _fields(file: Path, lines: Iterator[tuple[int, str]], name: str) -> list[str]:
    """What stands after the utterance's name on the next line."""
    place, line = next(lines, (0, ""))
    found, *rest = line.split() or [""]
    if found != name:
        raise UserError(f"{file} line {place}: expected utterance {name}, as in 1best_recog/text, found {line[:60]!r}.")
    return rest


def _score(text: str) -> float | None:
    """A number, or what ESPnet prints of a tensor: tensor(-12.3)."""
    inside = TENSOR.fullmatch(text)
    return number(inside.group(1) if inside else text)

"""SRILM: acoustic score, LM score, number of words, words a line, both scores log10; one file per utterance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from selfnorm.tasks.nbest.base import Array, Hypothesis, NBest, Reading, lines_of, number, stem

LOG10 = math.log(10)


class Srilm:
    """Read from a file, or from a folder of them. Rescored lists have the new LM score."""

    several = False

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]:
        files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
        for file in files:
            hypotheses = []
            for place, line in enumerate(lines_of(file), 1):
                parts = line.split()
                acoustic, lm = (number(parts[0]), number(parts[1])) if len(parts) >= 3 else (None, None)
                if acoustic is None or lm is None or not (parts[2].isascii() and parts[2].isdigit()):
                    reading.bad(file, place, "acoustic score, LM score, number of words, words", line)
                    continue
                words = tuple(word for word in parts[3:] if word not in ("<s>", "</s>"))
                hypotheses.append(Hypothesis(words, acoustic * LOG10, lm * LOG10, line))
            if hypotheses:
                yield NBest(stem(file, ".nbest"), tuple(hypotheses))

    def write(self, nbest: NBest, order: Sequence[int], totals: Array, lm: Array) -> Iterator[str]:
        for i in order:
            h = nbest.hypotheses[i]
            yield f"{h.score / LOG10:.4f} {lm[i] / LOG10:.4f} {len(h.words)} {' '.join(h.words)}"

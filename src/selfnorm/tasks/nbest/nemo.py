"""NeMo: words, a tab and a score a line; beam_size lines an utterance, or a blank line after each list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from selfnorm._util.errors import UserError
from selfnorm.tasks.nbest.base import Array, Hypothesis, NBest, Reading, lines_of, number


class Nemo:
    """Rescored lists have the total for their one score, and a blank line after each."""

    several = True

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]:
        lists = _by_size(path, reading, reading.beam_size) if reading.beam_size else _by_blank_lines(path, reading)
        for name, hypotheses in enumerate(lists):
            if hypotheses:
                yield NBest(str(name), tuple(hypotheses))

    def write(self, nbest: NBest, order: Sequence[int], totals: Array, lm: Array) -> Iterator[str]:
        yield from (f"{' '.join(nbest.hypotheses[i].words)}\t{totals[i]:.4f}" for i in order)
        yield ""  # a blank line ends a list


def _by_size(path: Path, reading: Reading, size: int) -> Iterator[list[Hypothesis]]:
    held: list[Hypothesis | None] = []
    for place, line in enumerate(lines_of(path), 1):
        held.append(_hypothesis(path, reading, place, line))
        if len(held) == size:
            yield [h for h in held if h is not None]
            held = []
    if held:
        raise UserError(
            f"{path} ends with {len(held)} lines of a list of {size}: is {size} the beam size it was written with?"
        )


def _by_blank_lines(path: Path, reading: Reading) -> Iterator[list[Hypothesis]]:
    held, blank = list[Hypothesis](), False
    for place, line in enumerate(lines_of(path), 1):
        if not line.strip(" \r"):
            blank = True
            yield held
            held = []
        elif (hypothesis := _hypothesis(path, reading, place, line)) is not None:
            held.append(hypothesis)
    if len(held) > 1 and not blank:
        raise UserError(
            f"{path} has no blank line between lists, so all {len(held):,} lines would be one. Say how many lines a list has "
            f"(--beam-size 128; --beam-size {len(held)} if it is one list)."
        )
    yield held


def _hypothesis(path: Path, reading: Reading, place: int, line: str) -> Hypothesis | None:
    text, tab, score = line.rpartition("\t")
    value = number(score)
    if not tab or value is None:
        reading.bad(path, place, "words, a tab and a score", line)
        return None
    return Hypothesis(tuple(text.split()), value, 0.0, line)

"""Whisper through CTranslate2 (or transformers): {"id", "sequences": [text or tokens, …], "scores": [number, …]} a JSON line.

CTranslate2's scores are averages over tokens (length_penalty = 1). Where a sequence is a list of tokens its score is multiplied by
their number, so that it is a log probability again. Whisper's tokens are bytes written as letters, a blank as Ġ. Texts are taken as
they are.
"""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from selfnorm.tasks.nbest.base import Array, Hypothesis, NBest, Reading, lines_of
from selfnorm.tasks.nbest.jsonl import WRONG, finite, parsed

EXPECTED = '{"id", "sequences": [text or list of tokens, …], "scores": [as many numbers]}'


class Whisper:
    """Rescored lists have their sequences in the new order, with "selfnorm" and "totals" next to "scores"."""

    several = True

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]:
        seen = set[str]()
        for place, line in enumerate(lines_of(path), 1):
            if not line.strip():
                continue
            try:
                nbest = _list(parsed(line))
            except WRONG:
                reading.bad(path, place, EXPECTED, line)
                continue
            if nbest.name in seen:
                reading.bad(path, place, "an id that no list before has", f"id {nbest.name}")
                continue
            seen.add(nbest.name)
            yield nbest

    def write(self, nbest: NBest, order: Sequence[int], totals: Array, lm: Array) -> Iterator[str]:
        table = dict(nbest.raw)
        table["sequences"] = [nbest.raw["sequences"][i] for i in order]
        table["scores"] = [nbest.raw["scores"][i] for i in order]
        table["selfnorm"], table["totals"] = [float(lm[i]) for i in order], [float(totals[i]) for i in order]
        yield json.dumps(table, ensure_ascii=False)


def _list(table: Any) -> NBest:
    pairs = list(zip(table["sequences"], table["scores"], strict=True))
    if not pairs:
        raise ValueError("a list without hypotheses")
    hypotheses = tuple(_hypothesis(sequence, finite(score)) for sequence, score in pairs)
    reference = table.get("ref")
    return NBest(str(table["id"]), hypotheses, None if reference is None else tuple(reference.split()), table)


def _hypothesis(sequence: Any, score: float) -> Hypothesis:
    if isinstance(sequence, str):
        return Hypothesis(tuple(sequence.split()), score)
    return Hypothesis(tuple(_text("".join(sequence)).split()), score * max(1, len(sequence)))


def _byte_letters() -> dict[str, int]:
    """How byte-level tokenizers (GPT-2's and those after it) write bytes: printable ones as themselves, the others from Ā on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


BYTES = _byte_letters()


def _text(tokens: str) -> str:
    """The text of joined tokens, which may end within a character; where they are not bytes of UTF-8, with blanks for Ġ only."""
    decoder = getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(bytes(BYTES[letter] for letter in tokens))
    except (KeyError, UnicodeDecodeError):
        return tokens.replace("Ġ", " ")
    unfinished = decoder.getstate()[0]
    if len(unfinished) == 1 and text.isascii():  # rather a letter than a byte: "Ġcafé"
        return tokens.replace("Ġ", " ")
    return text

"""JSON lines: {"id": "u1", "hyps": [{"text": "a b", "score": -12.3, "lm": -4.5}], "ref": "a b"} a line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from selfnorm.tasks.nbest.base import Array, Hypothesis, NBest, Reading, lines_of

EXPECTED = '{"id", "hyps": [{"text", "score"}]}'
WRONG = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class Jsonl:
    """What was read is kept; each hypothesis gets "selfnorm", the model's score, and "total"."""

    several = True

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]:
        seen = set[str]()
        for place, line in enumerate(lines_of(path), 1):
            nbest = read_line(line, path, place, reading, seen) if line.strip() else None
            if nbest is not None:
                yield nbest

    def write(self, nbest: NBest, order: Sequence[int], totals: Array, lm: Array) -> Iterator[str]:
        added = [{"selfnorm": float(lm[i]), "total": float(totals[i])} for i in order]
        hyps = [{**nbest.hypotheses[i].raw, **more} for i, more in zip(order, added, strict=True)]
        yield json.dumps({**nbest.raw, "hyps": hyps}, ensure_ascii=False)


def read_line(line: str, path: Path, place: int, reading: Reading, seen: set[str]) -> NBest | None:
    """The list of one line, whose id is added to those `seen`; None where it is bad and such lines are skipped."""
    try:
        table = parsed(line)
        name, hyps, reference = str(table["id"]), list(table["hyps"]), table.get("ref")
        words = None if reference is None else tuple(reference.split())
        if not hyps:
            raise ValueError("a list without hypotheses")
    except WRONG:
        reading.bad(path, place, EXPECTED, line)
        return None
    if name in seen:
        reading.bad(path, place, "an id that no list before has", f"id {name}")
        return None
    seen.add(name)
    hypotheses = tuple(_hypotheses(hyps, path, place, name, reading))
    return NBest(name, hypotheses, words, table) if hypotheses else None


def parsed(line: str) -> Any:
    """JSON that can be written again: lone surrogates are refused."""
    table = json.loads(line)
    json.dumps(table, ensure_ascii=False).encode("utf-8")
    return table


def _hypotheses(hyps: list[Any], path: Path, place: int, name: str, reading: Reading) -> Iterator[Hypothesis]:
    """A bad hypothesis is named; with skip_bad it alone is left out."""
    for number, h in enumerate(hyps, 1):
        field = "text"
        try:
            words, field = tuple(h["text"].split()), "score"
            score, field = finite(h["score"]), "lm"
            yield Hypothesis(words, score, finite(h.get("lm", 0.0)), h)
        except WRONG:
            kind = "a string" if field == "text" else "a finite number"
            shown = h.get(field, "no such field") if isinstance(h, dict) else h
            reading.bad(path, place, f'"{field}" of hypothesis {number} of {name} to be {kind}', str(shown))


def finite(value: Any) -> float:
    """A number that is not nan or infinite; strings and booleans are not numbers."""
    if isinstance(value, str | bool):
        raise ValueError("a number was expected")
    found = float(value)
    if not math.isfinite(found):
        raise ValueError("a score must be a finite number")
    return found

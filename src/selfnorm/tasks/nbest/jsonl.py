"""JSON lines: {"id": "u1", "hyps": [{"text": "a b", "score": -12.3, "lm": -4.5}], "ref": "a b"} a line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from selfnorm.tasks.nbest.base import Array, Hypothesis, NBest, Reading, lines_of

EXPECTED = '{"id", "hyps": [{"text", "score"}]}'


class Jsonl:
    """What was read is kept; each hypothesis gets "selfnorm", the model's score, and "total"."""

    several = True

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]:
        seen = set[str]()
        for place, line in enumerate(lines_of(path), 1):
            if not line.strip():
                continue
            try:
                nbest = _parse(line)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
                reading.bad(path, place, EXPECTED, line)
                continue
            if nbest.name in seen:
                reading.bad(path, place, "an id that no list before has", f"id {nbest.name}")
                continue
            seen.add(nbest.name)
            yield nbest

    def write(self, nbest: NBest, order: Sequence[int], totals: Array, lm: Array) -> Iterator[str]:
        added = [{"selfnorm": float(lm[i]), "total": float(totals[i])} for i in order]
        hyps = [{**nbest.hypotheses[i].raw, **more} for i, more in zip(order, added, strict=True)]
        yield json.dumps({**nbest.raw, "hyps": hyps}, ensure_ascii=False)


def _parse(line: str) -> NBest:
    table = json.loads(line)
    hypotheses = tuple(
        Hypothesis(tuple(h["text"].split()), _finite(h["score"]), _finite(h.get("lm", 0.0)), h) for h in table["hyps"]
    )
    line.encode("utf-8"), json.dumps(table, ensure_ascii=False).encode("utf-8")  # lone surrogates are refused
    if not hypotheses:
        raise ValueError("a list without hypotheses")
    reference = table.get("ref")
    return NBest(str(table["id"]), hypotheses, None if reference is None else tuple(reference.split()), table)


def _finite(value: Any) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError("a score must be a finite number")
    return found

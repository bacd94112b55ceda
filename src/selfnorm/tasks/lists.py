"""n-best lists in the formats people have: Kaldi, SRILM, NeMo, Moses and JSON lines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from selfnorm.errors import UserError
from selfnorm.files import read_text
from selfnorm.tasks.nbest import Hypothesis, NBest, Reading


def read_lists(path: Path, form: str, skip_bad: bool = False) -> tuple[list[NBest], list[str]]:
    """All lists of a file or folder, and the lines that were skipped."""
    if form not in READERS:
        raise UserError(f"--format {form} is unknown. Known: {', '.join(READERS)}.")
    if not path.exists():
        raise UserError(f"{path} does not exist. Check the path of the lists.")
    reading = Reading(skip_bad)
    lists = list(READERS[form](path, reading))
    if not lists:
        raise UserError(f"{path} holds no {form} list. Is it the right --format?")
    return lists, reading.skipped


def _lines(path: Path) -> list[str]:
    """Lines end at newlines only: other separators may stand inside a text."""
    lines = read_text(path).split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("a score must be a finite number")
    return number


def _grouped(rows: list[tuple[str, Hypothesis]]) -> Iterator[NBest]:
    """Rows of the same name, which must be together, as one list each."""
    groups: dict[str, list[Hypothesis]] = {}
    for name, hypothesis in rows:
        groups.setdefault(name, []).append(hypothesis)
    for name, hypotheses in groups.items():
        yield NBest(name, tuple(hypotheses))


def _jsonl(path: Path, reading: Reading) -> Iterator[NBest]:
    """{"id": "u1", "hyps": [{"text": "a b", "score": -12.3, "lm": -4.5}], "ref": "a b"} a line."""
    expected, seen = '{"id", "hyps": [{"text", "score"}]}', set[str]()
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            table = json.loads(line)
            hypotheses = tuple(
                Hypothesis(tuple(h["text"].split()), _finite(h["score"]), _finite(h.get("lm", 0.0)), h)
                for h in table["hyps"]
            )
            line.encode("utf-8"), json.dumps(table, ensure_ascii=False).encode("utf-8")  # lone surrogates are refused
            if not hypotheses:
                raise ValueError("a list without hypotheses")
            reference, name = table.get("ref"), str(table["id"])
            if name in seen:
                reading.bad(path, number, "an id that no list before has", f"id {name}")
                continue
            seen.add(name)
            yield NBest(name, hypotheses, None if reference is None else tuple(reference.split()), table)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            reading.bad(path, number, expected, line)


def _moses(path: Path, reading: Reading) -> Iterator[NBest]:
    """0 ||| words ||| LM0= -3 Dist0= 1 ||| -5.2; the old LM is the feature named LM0, weight 1."""
    rows = []
    for number, line in enumerate(_lines(path), 1):
        parts = [part.strip() for part in line.split("|||")]
        total = _number(parts[3]) if len(parts) >= 4 else None
        old = _feature(parts[2], "LM0=") if len(parts) >= 4 else None
        if total is None or old is None:
            reading.bad(path, number, "id ||| words ||| features ||| total", line)
            continue
        rows.append((parts[0], Hypothesis(tuple(parts[1].split()), total, old, parts)))
    return _grouped(rows)


def _feature(text: str, name: str) -> float | None:
    """The number after a feature's name; 0 where the feature is absent, None where it is not a number."""
    words = text.split()
    if name not in words:
        return 0.0
    return _number(([*words, ""])[words.index(name) + 1])


def _nemo(path: Path, reading: Reading) -> Iterator[NBest]:
    """words <tab> score a line; a blank line ends a list."""
    rows, name = [], 0
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            name += 1
            continue
        text, tab, score = line.rpartition("\t")
        value = _number(score)
        if not tab or value is None:
            reading.bad(path, number, "words, a tab and a score", line)
            continue
        rows.append((str(name), Hypothesis(tuple(text.split()), value, 0.0, line)))
    return _grouped(rows)


def _srilm(path: Path, reading: Reading) -> Iterator[NBest]:
    """acoustic lm words… a line, both log10 scores; one file per utterance, or a folder of them."""
    files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    for file in files:
        hypotheses = []
        for number, line in enumerate(_lines(file), 1):
            parts = line.split()
            acoustic, lm = (_number(parts[0]), _number(parts[1])) if len(parts) >= 3 else (None, None)
            if acoustic is None or lm is None or not parts[2].isdigit():
                reading.bad(file, number, "acoustic score, LM score, number of words, words", line)
                continue
            words = tuple(word for word in parts[3:] if word not in ("<s>", "</s>"))
            hypotheses.append(Hypothesis(words, acoustic * math.log(10), lm * math.log(10), line))
        if hypotheses:
            yield NBest(file.name.removesuffix(".nbest"), tuple(hypotheses))


def _kaldi(path: Path, reading: Reading) -> Iterator[NBest]:
    """A folder with words_text (utterance-n words) and costs: acwt, lmwt.nolm, lmwt.lmonly (utterance-n cost)."""
    words_file = path / "words_text"
    if not words_file.is_file():
        raise UserError(
            f"{path} has no words_text. A Kaldi n-best folder holds words_text, acwt, lmwt.nolm and lmwt.lmonly."
        )
    costs = {name: _kaldi_costs(path / name, reading) for name in ("acwt", "lmwt.nolm", "lmwt.lmonly")}
    if not costs["acwt"] and not costs["lmwt.nolm"]:
        raise UserError(f'{path} has no costs: acwt or lmwt.nolm with lines "utterance-number cost" was expected.')
    rows = []
    for number, line in enumerate(_lines(words_file), 1):
        key, *rest = line.split(maxsplit=1) or [""]
        name, dash, place = key.rpartition("-")
        if not dash or not place.isdigit():
            reading.bad(words_file, number, "utterance-number words", line)
            continue
        absent = [file for file, found in costs.items() if found and key not in found]
        if absent:
            reading.bad(words_file, number, f"a cost for {key} in {absent[0]}", line)
            continue
        acoustic = costs["acwt"].get(key, 0.0) + costs["lmwt.nolm"].get(key, 0.0)
        rows.append(
            (name, Hypothesis(tuple(" ".join(rest).split()), -acoustic, -costs["lmwt.lmonly"].get(key, 0.0), key))
        )
    return _grouped(rows)


def _kaldi_costs(path: Path, reading: Reading) -> dict[str, float]:
    costs = {}
    for number, line in enumerate(_lines(path) if path.exists() else [], 1):
        parts = line.split()
        value = _number(parts[1]) if len(parts) == 2 else None
        if value is None:
            reading.bad(path, number, "utterance-number cost", line)
        else:
            costs[parts[0]] = value
    return costs


READERS: dict[str, Callable[[Path, Reading], Iterator[NBest]]] = {
    "jsonl": _jsonl,
    "moses": _moses,
    "nemo": _nemo,
    "srilm": _srilm,
    "kaldi": _kaldi,
}

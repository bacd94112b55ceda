"""Millions of damaged and edited files through every reader: each is read or refused with a sentence."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from typing import Any

from selfnorm._util.errors import UserError

from .crashes import Tally
from .readers import Reader, readers

WORDS = [
    b"1e999", b"-1e999", b"NaN", b"Infinity", "²".encode(), b"9" * 40, b"9" * 5000, b"-5000", b"1e300", b"0", b"-1", b"null", b"true",
    b"[]", b"{}", b'""', b"[" * 3000, b'{"a":' * 1500, b'"\\ud800"', b"\0", b"\xff", b"\xef\xbb\xbf", b"\t", b"\n", b"\r", b" ", b"|||",
    b"<eos>", b"<unk>", b"$", b"\\", b"..", b"/", b"=", b"'", b'"""', b"ngram 2=-4", b"1979-05-27T07:32:00Z", b"0x10", b"1_000", b"inf",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, -(10**25), 1e300, -1e300, 1e-300, float("nan"), float("inf"), "", "x", "²",
    "\ud800", "\0", "$a$", "a" * 5000, [], [[]], {}, {"a": 1}, [1, "a", None], [[1], [1, 2]], {"kind": []},
]  # fmt: skip


def fuzz(base: Path, most: int, tally: Tally, seed: int) -> None:
    """`most` inputs, the readers in turn."""
    base.mkdir(parents=True)
    rng, known = random.Random(seed), readers(base)
    folders = {name: base / name.replace(" ", "-") for name in known}
    for folder in folders.values():
        folder.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while tally.tried < most:
            for name, reader in known.items():
                if tally.tried < most:
                    tally.add(
                        fuzz_once(folders[name] / reader.file, name, reader, mutated(rng, rng.choice(reader.seeds)))
                    )


def fuzz_once(path: Path, name: str, reader: Reader, content: bytes) -> str | None:
    path.write_bytes(content)
    try:
        reader.read(path)
    except UserError as error:
        sentence = str(error)
        return None if sentence and len(sentence) < 6000 else f"{name}: a message of {len(sentence)} characters"
    except Exception as error:
        return f"{name}: {type(error).__name__}: {str(error)[:100]} from {content[:300]!r}"
    return None


def mutated(rng: random.Random, seed: bytes) -> bytes:
    """A valid file with one to four changes, of its structure where it is JSON, of its bytes otherwise."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        change = _of_structure if seed[:1] == b"{" and rng.random() < 0.5 else rng.choice(CHANGES)
        seed = change(rng, seed)
    return seed


def _of_structure(rng: random.Random, seed: bytes) -> bytes:
    """Another value somewhere in the JSON; of JSON lines, in one of them."""
    lines = seed.split(b"\n")
    place = rng.randrange(len(lines))
    try:
        table = json.loads(lines[place])
        lines[place] = json.dumps(_replaced(rng, table)).encode()
    except (ValueError, RecursionError):
        return seed
    return b"\n".join(lines)


def _replaced(rng: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        if rng.random() < 0.15:
            return {name: entry for name, entry in value.items() if name != key}
        return {**value, key: _replaced(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.85:
        place = rng.randrange(len(value))
        return [*value[:place], _replaced(rng, value[place]), *value[place + 1 :]]
    return rng.choice(VALUES)


def _flip(rng: random.Random, seed: bytes) -> bytes:
    if not seed:
        return b"x"
    place = rng.randrange(len(seed))
    return seed[:place] + bytes([seed[place] ^ (1 << rng.randrange(8))]) + seed[place + 1 :]


def _insert(rng: random.Random, seed: bytes) -> bytes:
    place = rng.randrange(len(seed) + 1)
    return seed[:place] + rng.choice(WORDS) + seed[place:]


def _remove(rng: random.Random, seed: bytes) -> bytes:
    place = rng.randrange(len(seed) + 1)
    return seed[:place] + seed[place + rng.randrange(1, 40) :]


def _truncate(rng: random.Random, seed: bytes) -> bytes:
    return seed[: rng.randrange(len(seed) + 1)]


def _repeat(rng: random.Random, seed: bytes) -> bytes:
    place, size = rng.randrange(len(seed) + 1), rng.randrange(1, 60)
    return seed[: place + size] + seed[place:]


def _value(rng: random.Random, seed: bytes) -> bytes:
    """Another value after an equals sign, a colon, a comma or a tab: TOML, JSON, CSV and vocabularies have one of them."""
    places = [i for i, byte in enumerate(seed) if byte in b"=:,\t "]
    if not places:
        return seed
    start = rng.choice(places) + 1
    end = next((i for i in range(start, len(seed)) if seed[i] in b"\n,}\t"), len(seed))
    return seed[:start] + rng.choice(WORDS) + seed[end:]


CHANGES = (_flip, _insert, _remove, _truncate, _repeat, _value)

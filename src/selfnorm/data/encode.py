"""Lines of text to ids in one pass: ids grow as words appear and are renumbered by count at the end.

Ten million words take a few seconds and four bytes a token; nothing else of the text stays in memory.
"""

from __future__ import annotations

import logging
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from selfnorm._util.errors import UserError
from selfnorm.data.sources.base import Lines
from selfnorm.data.tokenizers import Tokenize, tokenizer
from selfnorm.data.vocab import EOS, UNK, Vocab

PIECE = 1 << 22
log = logging.getLogger("selfnorm")


def encode(
    splits: Mapping[str, Lines],
    min_count: int,
    tokens: str = "whitespace",
    advance: Callable[[float], None] = lambda n: None,
) -> tuple[Vocab, dict[str, np.ndarray]]:
    """Every split as int32 ids, <eos> after each line, under a vocabulary counted on the split named train."""
    grown: defaultdict[str, int] = defaultdict()
    grown.default_factory = grown.__len__
    grown[EOS], grown[UNK]
    raw = {name: _grow(lines(), grown, tokenizer(tokens), advance) for name, lines in splits.items()}
    vocab, renumbered = _by_count(list(grown), raw["train"], min_count)
    for ids in raw.values():
        for start in range(0, len(ids), PIECE):  # in place: a second copy of a large text may not fit
            ids[start : start + PIECE] = renumbered[ids[start : start + PIECE]]
    return vocab, raw


def _grow(
    lines: Iterable[str],
    grown: defaultdict[str, int],
    tokenize: Tokenize,
    advance: Callable[[float], None],
) -> np.ndarray:
    ids, eos, number, count = array("i"), grown[EOS], grown.__getitem__, -1
    for count, line in enumerate(lines):
        ids.extend(map(number, tokenize(line)))
        ids.append(eos)
        if count % 10_000 == 9_999:
            advance(10_000)
    found = np.frombuffer(ids, dtype=np.int32) if ids else np.zeros(0, dtype=np.int32)
    written = int((found == eos).sum()) - (count + 1)
    if written:
        log.warning("The text has the word %s %s times inside its lines: each ends a sentence.", EOS, f"{written:,}")
    return found


def _by_count(words: list[str], train: np.ndarray, min_count: int) -> tuple[Vocab, np.ndarray]:
    """The vocabulary by falling count, and the table from grown ids to final ones."""
    counts = np.bincount(train, minlength=len(words))
    keep = counts >= max(1, min_count)
    keep[:2] = True
    counts[1] += counts[~keep].sum()  # what is dropped becomes <unk>
    kept = np.flatnonzero(keep)
    kept = kept[np.argsort(-counts[kept], kind="stable")]
    if len(kept) < 4:
        raise UserError(
            f"The training text leaves a vocabulary of {len(kept) - 2} words besides {EOS} and {UNK}; at least 2 words are needed. "
            f"Give more text or lower data.min_count ({min_count})."
        )
    table = np.full(len(words), -1, dtype=np.int32)
    table[kept] = np.arange(len(kept), dtype=np.int32)
    table[table < 0] = table[1]
    return Vocab([words[i] for i in kept], counts[kept].tolist()), table


def shuffle_and_hold_out(ids: np.ndarray, eos: int, held_out: int, seed: int = 1) -> dict[str, np.ndarray]:
    """Sentences in random order; the last ones are for testing and, before them, for validation."""
    ends = np.flatnonzero(ids == eos) + 1
    starts = np.concatenate([[0], ends[:-1]])
    order = np.random.default_rng(seed).permutation(len(ends))
    held_out = min(held_out, len(ends) // 10)
    parts = {
        "train": order[: -2 * held_out],
        "valid": order[-2 * held_out : -held_out],
        "test": order[-held_out:],
    }
    return {split: _joined(ids, starts[chosen], (ends - starts)[chosen]) for split, chosen in parts.items()}


def _joined(ids: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    before = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    joined: np.ndarray = ids[np.repeat(starts - before, lengths) + np.arange(lengths.sum())]
    return joined

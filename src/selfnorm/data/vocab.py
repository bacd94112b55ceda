"""Vocab: words to ids and back. The most frequent word has id 0."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from selfnorm._util.errors import UserError
from selfnorm._util.files import read_text, write_text

EOS, UNK = "<eos>", "<unk>"
COUNT = re.compile(r"[0-9]{1,18}")  # 64 bits


class Vocab:
    """Words by falling count, with the counts of the training text. Holds <eos> and <unk>."""

    def __init__(self, words: Sequence[str], counts: Sequence[int]) -> None:
        self.words = list(words)
        self.counts = np.asarray(counts, dtype=np.int64)
        self.index = {word: i for i, word in enumerate(self.words)}
        if len(self.index) != len(self.words):
            raise UserError(
                f"A vocabulary lists each word once; this one has {len(self.words) - len(self.index)} words twice."
            )
        if EOS not in self.index or UNK not in self.index:
            raise UserError(f"A vocabulary must contain {EOS} and {UNK}; this one of {len(self.words)} words does not.")
        self.eos, self.unk = self.index[EOS], self.index[UNK]

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, words: Iterable[str]) -> list[int]:
        """Ids of the words; words not in the vocabulary are <unk>."""
        get, unk = self.index.get, self.unk
        return [get(word, unk) for word in words]

    def text(self) -> str:
        """One word and its count a line."""
        return "".join(f"{word}\t{count}\n" for word, count in zip(self.words, self.counts, strict=True))

    def write(self, path: Path) -> None:
        write_text(path, self.text())


class Unknown:
    """Counts words outside the vocabulary: many of them mean that the text was tokenized in another way than the training text."""

    def __init__(self, vocab: Vocab) -> None:
        self.vocab, self.words, self.unknown, self.marks = vocab, 0, 0, 0

    def add(self, words: Iterable[str]) -> None:
        self.count(self.vocab.ids(words))

    def count(self, ids: list[int]) -> None:
        self.marks += ids.count(self.vocab.eos)
        self.words, self.unknown = self.words + len(ids), self.unknown + ids.count(self.vocab.unk)

    @property
    def share(self) -> float:
        return self.unknown / max(1, self.words)


def read_vocab(path: Path) -> Vocab:
    words, counts = [], []
    for number, line in enumerate(read_text(path).split("\n")[:-1], 1):
        word, tab, count = line.partition("\t")
        if not tab or not COUNT.fullmatch(count):
            raise UserError(f"{path} line {number}: expected a word, a tab and its count, found {line[:60]!r}.")
        words.append(word)
        counts.append(int(count))
    return Vocab(words, counts)

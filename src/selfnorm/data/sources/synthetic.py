"""A small language whose true p(w|c) is known, so that Theorems 1 and 2 can be checked on a trained model.

Each word belongs to one of a few classes; the class of the previous word chooses a mixture of topics, and each
topic is a Zipfian distribution over the words. So p(w | history) = Σ_s A[class(previous), s] · E[s, w], exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from selfnorm.config.recipe import Data
from selfnorm.data.sources.base import Lines, Source
from selfnorm.data.vocab import EOS, Vocab

V, CLASSES, TOPICS, SEED = 200, 12, 6, 7
SIZES = {"train": 200_000, "valid": 20_000, "test": 20_000}

Array = NDArray[np.float64]


def names() -> list[str]:
    """Word 0 ends a sentence; the others are w1, w2, …"""
    return [EOS, *(f"w{i}" for i in range(1, V))]


def truth() -> Array:
    """p(w | previous) as a (V, V) table: row = previous word, column = next word."""
    rng = np.random.default_rng(SEED)
    zipf = 1 / np.arange(1, V + 1) ** 1.1
    topics = np.stack([zipf[rng.permutation(V)] for _ in range(TOPICS)])
    topics[:, 0] = zipf[:8].mean()  # every topic ends its sentences now and then
    topics /= topics.sum(1, keepdims=True)
    mixture = rng.dirichlet(np.full(TOPICS, 0.3), size=CLASSES)
    table = mixture[rng.integers(CLASSES, size=V)] @ topics
    normalized: Array = table / table.sum(1, keepdims=True)
    return normalized


def source(data: Data) -> Source:
    splits = {split: _lines(size, index) for index, (split, size) in enumerate(SIZES.items())}
    return Source(splits, f"synthetic-{V}-{CLASSES}-{TOPICS}-{SEED}")


def _lines(size: int, index: int) -> Lines:
    def lines() -> Iterator[str]:
        steps = np.cumsum(truth(), axis=1)
        rng, words, word, line = np.random.default_rng([SEED, index]), names(), 0, list[str]()
        for coin in rng.random(size):
            word = min(int(np.searchsorted(steps[word], coin)), V - 1)
            if word:
                line.append(words[word])
            else:
                yield " ".join(line)
                line = []
        yield " ".join(line)

    return lines


def whole(vocab: Vocab) -> bool:
    """Is every word in it? Where some became <unk>, the truth about it is not known."""
    return set(names()) <= set(vocab.words)


def truth_in(vocab: Vocab) -> Array:
    """log p(w | previous) in the ids of a vocabulary made from this text (V', V'), with <unk> impossible."""
    place = {word: i for i, word in enumerate(names())}
    order = [place.get(word, -1) for word in vocab.words]
    known = np.array([i for i, j in enumerate(order) if j >= 0])
    table = np.full((len(vocab), len(vocab)), -np.inf)
    rows = [j for j in order if j >= 0]
    table[np.ix_(known, known)] = np.log(truth()[np.ix_(rows, rows)])
    return table

"""Scorer: sentences to log-probabilities, with or without log Z. Without it only the words asked for are touched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfnorm.encoders import State
from selfnorm.errors import UserError
from selfnorm.model import LanguageModel
from selfnorm.text import Vocab

Array = NDArray[np.float64]
PADDED = 16_384  # words of a batch, the padding included


@dataclass(frozen=True)
class Before:
    """What has been read so far: the encoder's state and the context vector c (1, d) it led to."""

    state: State | None
    c: Tensor


class Scorer:
    """Natural-log scores of words and sentences.

    A sentence starts after <eos> and, unless asked otherwise, ends with it. The score of a sentence is the sum of the
    scores of its words, and of the scores of stepping through it.
    """

    def __init__(self, model: LanguageModel, vocab: Vocab, normalized: bool = False, unk_penalty: float = 0.0) -> None:
        if not math.isfinite(unk_penalty):
            raise UserError(f"unk_penalty = {unk_penalty}: a finite number was expected.")
        self.model, self.vocab, self.normalized, self.unk_penalty = model, vocab, normalized, unk_penalty
        model.requires_grad_(False)

    def score(self, sentence: str, eos: bool = True) -> float:
        return float(self.words(sentence, eos).sum())

    def words(self, sentence: str, eos: bool = True) -> Array:
        """The score of each word, and of <eos> at the end."""
        return self.batch([self.vocab.ids(sentence.split())], eos)[0]

    def stream(self, lines: Iterable[str], eos: bool = True, size: int = 256) -> Iterator[Array]:
        """Word scores of each line, in order, holding only `size` lines at a time."""
        waiting = iter(lines)
        while chunk := list(islice(waiting, size)):
            yield from self.batch([self.vocab.ids(line.split()) for line in chunk], eos)

    def batch(self, sentences: Sequence[Sequence[int]], eos: bool = True, size: int = 64) -> list[Array]:
        """Word scores of sentences given as ids: batched by length, given back in order."""
        found: list[Array] = [np.zeros(0)] * len(sentences)
        for chosen in _groups([len(sentence) for sentence in sentences], size):
            for index, scores in zip(chosen, self._alike([sentences[i] for i in chosen], eos), strict=True):
                found[index] = scores
        return found

    def _alike(self, sentences: list[Sequence[int]], eos: bool) -> Iterator[Array]:
        """Scores of sentences of about the same length, padded to the longest."""
        end = [self.vocab.eos] if eos else []
        targets = [[*sentence, *end] for sentence in sentences]
        longest = max(map(len, targets), default=0)
        if longest == 0:
            yield from (np.zeros(0) for _ in targets)
            return
        w = torch.full((len(targets), longest), self.vocab.eos)
        real = torch.zeros(len(targets), longest, dtype=torch.bool)
        for row, words in enumerate(targets):
            w[row, : len(words)] = torch.tensor(words, dtype=torch.long)
            real[row, : len(words)] = True
        inputs = torch.cat([torch.full((len(w), 1), self.vocab.eos), w[:, :-1]], dim=1)
        with torch.no_grad():
            c, _ = self.model.contexts(inputs, None)
            scores = self.at(w[real], c[real]).double().numpy()
        yield from np.split(scores, np.cumsum([len(words) for words in targets])[:-1])

    def at(self, w: Tensor, c: Tensor) -> Tensor:
        """Scores (n,) of words (n,) in contexts (n, d): the one place where log Z is used or skipped."""
        if self.normalized:
            m, log_z = self.model.output.target_and_log_z(w, c)
            m = m - log_z
        else:
            m = self.model.output.m(w, c)
        return m + self.unk_penalty * (w == self.vocab.unk) if self.unk_penalty else m

    # One word at a time

    def start(self) -> Before:
        """After <eos>, as every sentence begins."""
        return self.read(self.nothing(), self.vocab.eos)

    def nothing(self) -> Before:
        """Before any word at all: the context vector is zero and only the biases speak."""
        return Before(None, torch.zeros(1, self.model.output.d))

    def read(self, before: Before, word: int) -> Before:
        with torch.no_grad():
            c, state = self.model.contexts(torch.tensor([[word]]), before.state)
        return Before(state, c[0])

    def step(self, before: Before, word: int) -> tuple[float, Before]:
        """The score of a word here, and where it leads."""
        with torch.no_grad():
            score = float(self.at(torch.tensor([word]), before.c))
        return score, self.read(before, word)

    def perplexity(self, sentence: str) -> float:
        scores = self.words(sentence)
        return math.exp(-float(scores.mean()))


def _groups(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Places of sentences of about the same length: at most `size`, and fewer where long ones would fill the memory."""
    group: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) == size or (lengths[place] + 1) * (len(group) + 1) > PADDED):
            yield group
            group = []
        group.append(place)
    if group:
        yield group

"""Scorer: sentences to log-probabilities, with or without log Z. Without it only the words asked for are touched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfnorm._util.devices import HOST, device_of, moved
from selfnorm._util.errors import UserError
from selfnorm.data.tokenizers import tokenizer
from selfnorm.data.vocab import Vocab
from selfnorm.nn.encoders import State, join, pick
from selfnorm.nn.model import LanguageModel

Array = NDArray[np.float64]
Sentence = str | Sequence[str]
AT_ONCE = 1024  # sentences that are held and batched by length
PADDED = 16_384  # words of a batch, the padding included


@dataclass(frozen=True)
class Before:
    """What has been read so far: the encoder's state and the context vector c (1, d) it led to."""

    state: State | None
    c: Tensor


class Scorer:
    """Natural-log scores of words and sentences.

    A sentence starts after <eos> and, unless asked otherwise, ends with it. The score of a sentence is the sum of the
    scores of its words, and of the scores of stepping through it. Text given as a string is tokenized as the training text was;
    a list of words is taken as it is. Words outside the vocabulary are <unk>, plus `unk_penalty`.
    """

    def __init__(
        self, model: LanguageModel, vocab: Vocab, normalized: bool = False, unk_penalty: float = 0.0,
        tokens: str = "whitespace",
    ) -> None:  # fmt: skip
        if not math.isfinite(unk_penalty) or abs(unk_penalty) > 1e6:
            raise UserError(f"unk_penalty = {unk_penalty}: a number between -1e6 and 1e6 was expected.")
        self.model, self.vocab, self.normalized, self.unk_penalty = model, vocab, normalized, unk_penalty
        self.tokenize = tokenizer(tokens)
        self.tokenizer = tokens
        self.device = device_of(model)
        model.requires_grad_(False)

    def __repr__(self) -> str:
        how = "normalized" if self.normalized else "unnormalized"
        return f"Scorer(V={len(self.vocab)}, d={self.model.output.d}, {how}, tokenizer={self.tokenizer!r})"

    def with_log_z(self, normalized: bool) -> Scorer:
        """The same model with log Z computed, or skipped."""
        return Scorer(self.model, self.vocab, normalized, self.unk_penalty, self.tokenizer)

    def ids(self, sentence: Sentence) -> list[int]:
        """A sentence's word ids: a string is tokenized, a list of words is taken as it is."""
        if not isinstance(sentence, str | Sequence) or isinstance(sentence, bytes | bytearray):
            raise UserError(f"A sentence is a string or a list of words; found {type(sentence).__name__}.")
        return self.vocab.ids(self.tokenize(sentence) if isinstance(sentence, str) else sentence)

    def score(self, sentence: Sentence, eos: bool = True) -> float:
        """The sentence's score, the sum over its words and <eos>."""
        return float(self.word_scores(sentence, eos).sum())

    def word_scores(self, sentence: Sentence, eos: bool = True) -> Array:
        """The score of each word, and of <eos> at the end."""
        return self.batch([self.ids(sentence)], eos)[0]

    def score_batch(self, sentences: Iterable[Sentence], eos: bool = True) -> Array:
        """The score of each sentence (n,), batched by length."""
        if isinstance(sentences, str):
            raise UserError("score_batch takes several sentences: give a list, or use score for one.")
        return np.array([scores.sum() for scores in self.stream(sentences, eos)])

    def stream(self, sentences: Iterable[Sentence], eos: bool = True, size: int = AT_ONCE) -> Iterator[Array]:
        """Word scores of each sentence, in order, holding only `size` sentences at a time."""
        waiting = iter(sentences)
        while chunk := list(islice(waiting, size)):
            yield from self.batch([self.ids(sentence) for sentence in chunk], eos)

    def tokens(self, sentences: Iterable[Sentence], eos: bool = True) -> dict[str, np.ndarray]:
        """Arrays over all words: sentence, word, m, log_z (exact, of these scores), entropy."""
        columns: dict[str, list[Any]] = {name: [] for name in ("sentence", "word", "m", "log_z", "entropy")}
        for number, sentence in enumerate(sentences):
            w = self._tensor([*self.ids(sentence), *([self.vocab.eos] if eos else [])])
            with torch.no_grad():
                inputs = torch.cat([self._tensor([self.vocab.eos]), w[:-1]])
                c = (
                    self.model.contexts(inputs.unsqueeze(0), None)[0][0]
                    if len(w)
                    else torch.zeros(0, self.model.output.d, device=w.device)
                )
                log_z, entropy = self.model.output.log_z_and_entropy(c) if len(w) else (c.new_zeros(0), c.new_zeros(0))
                m = self.penalized(w, self.model.output.m(w, c)) if len(w) else c.new_zeros(0)
            columns["sentence"] += [number] * len(w)
            columns["word"] += [self.vocab.words[i] for i in w.tolist()]
            for name, values in (("m", m), ("log_z", log_z), ("entropy", entropy)):
                columns[name] += values.cpu().double().tolist()
        return {name: np.asarray(values, dtype=object if name == "word" else None) for name, values in columns.items()}

    def batch(self, sentences: Sequence[Sequence[int]], eos: bool = True, size: int = 256) -> list[Array]:
        """Word scores of sentences given as ids: batched by length, given back in order."""
        results: list[Array] = [np.zeros(0)] * len(sentences)
        for chosen in _groups([len(sentence) for sentence in sentences], size):
            for index, scores in zip(chosen, self._alike([sentences[i] for i in chosen], eos), strict=True):
                results[index] = scores
        return results

    def _alike(self, sentences: list[Sequence[int]], eos: bool) -> Iterator[Array]:
        """Scores of sentences of about the same length, padded to the longest."""
        end = [self.vocab.eos] if eos else []
        targets = [[*sentence, *end] for sentence in sentences]
        longest = max(map(len, targets), default=0)
        if longest == 0:
            yield from (np.zeros(0) for _ in targets)
            return
        w = torch.full((len(targets), longest), self.vocab.eos, device=HOST)
        real = torch.zeros(len(targets), longest, dtype=torch.bool, device=HOST)
        for row, words in enumerate(targets):
            w[row, : len(words)] = torch.tensor(words, dtype=torch.long, device=HOST)
            real[row, : len(words)] = True
        w, real = moved(w, self.device), moved(real, self.device)
        inputs = torch.cat([w.new_full((len(w), 1), self.vocab.eos), w[:, :-1]], dim=1)
        with torch.no_grad():
            c, _ = self.model.contexts(inputs, None)
            scores = self.at(w[real], c[real]).cpu().double().numpy()
        yield from np.split(scores, np.cumsum([len(words) for words in targets])[:-1])

    def at(self, w: Tensor, c: Tensor) -> Tensor:
        """Scores (n,) of words (n,) in contexts (n, d): the one place where log Z is used or skipped."""
        if self.normalized:
            m, log_z = self.model.output.target_and_log_z(w, c)
            m = m - log_z
        else:
            m = self.model.output.m(w, c)
        return self.penalized(w, m)

    def penalized(self, w: Tensor, m: Tensor) -> Tensor:
        """m with `unk_penalty` added where the word is <unk>: the one place where it is added."""
        return m + self.unk_penalty * (w == self.vocab.unk) if self.unk_penalty else m

    # One word at a time

    def start(self) -> Before:
        """After <eos>, as every sentence begins."""
        return self.read(self.nothing(), self.vocab.eos)

    def nothing(self) -> Before:
        """Before any word at all: the context vector is zero and only the biases count."""
        return Before(None, torch.zeros(1, self.model.output.d, device=self.device))

    def read(self, before: Before, word: int) -> Before:
        with torch.no_grad():
            c, state = self.model.contexts(self._tensor([[word]]), before.state)
        return Before(state, c[0])

    def step(self, before: Before, word: int | str) -> tuple[float, Before]:
        """The score of a word (an id, or the word itself) here, and the state after it."""
        word = self._id(word)
        with torch.no_grad():
            score = float(self.at(self._tensor([word]), before.c))
        return score, self.read(before, word)

    def scores(self, states: Sequence[Before], words: Sequence[int | str]) -> tuple[Array, list[Before]]:
        """Step many hypotheses at once, as a beam search does: the score of words[i] after states[i], and the states after them."""
        if len(states) != len(words):
            raise UserError(f"scores takes a word for each state; found {len(states)} states and {len(words)} words.")
        if not states:
            return np.zeros(0), []
        w = self._tensor([self._id(word) for word in words])
        with torch.no_grad():
            scores = self.at(w, torch.cat([state.c for state in states])).cpu().double().numpy()
            c, after = self.model.contexts(w.unsqueeze(1), join([state.state for state in states]))
        rows = torch.arange(len(w), device=self.device).unsqueeze(1)
        return scores, [Before(pick(after, row), c[row[0]]) for row in rows]

    def _id(self, word: int | str) -> int:
        return self.vocab.index.get(word, self.vocab.unk) if isinstance(word, str) else word

    def _tensor(self, words: Any) -> Tensor:
        return torch.tensor(words, dtype=torch.long, device=self.device)

    def perplexity(self, sentence: Sentence) -> float:
        scores = self.word_scores(sentence)
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

"""The interface of the kenlm module: code written for kenlm runs on a selfnorm model unchanged. Scores are log10, as there.

    from selfnorm.scoring import kenlm_compat as kenlm
    model = kenlm.Model("runs/nce")              # instead of kenlm.Model("lm.arpa")
    model.score("this is a sentence", bos=True, eos=True)

Every public name of kenlm is here. What differs: the history is not bounded, so `order` is 0 and `ngram_length` is the number of
words read so far plus one; a state is equal to another of the same words; loading has no methods, so Config is accepted and not used.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import selfnorm
from selfnorm._util.errors import UserError
from selfnorm.scoring.scorer import Before, Scorer

Text = str | bytes
LOG10 = math.log(10)


class LoadMethod:
    """How kenlm maps a file into memory; accepted and not used."""

    LAZY, POPULATE_OR_LAZY, POPULATE_OR_READ, READ, PARALLEL_READ = range(5)


class ARPALoadComplain:
    """What kenlm says while it reads a text file; accepted and not used."""

    ALL, EXPENSIVE, NONE = range(3)


class Config:
    """kenlm's settings of loading; accepted and not used."""

    def __init__(self) -> None:
        self.load_method = LoadMethod.POPULATE_OR_READ
        self.show_progress = True
        self.arpa_complain = ARPALoadComplain.ALL


class FullScoreReturn(NamedTuple):
    """What BaseFullScore returns: log10 score, words of history used plus one, out of vocabulary."""

    log_prob: float
    ngram_length: int
    oov: bool


class State:
    """The words read so far; filled by BeginSentenceWrite, NullContextWrite and BaseScore. Equal, ordered and hashed by these words."""

    def __init__(self) -> None:
        self.history: tuple[int, ...] = ()
        self.before: Before | None = None

    def set(self, history: tuple[int, ...], before: Before) -> None:
        self.history, self.before = history, before

    def __copy__(self) -> State:
        made = State()
        made.history, made.before = self.history, self.before  # never changed in place, so it may be shared
        return made

    def __deepcopy__(self, memo: object) -> State:
        return self.__copy__()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.history == other.history

    def __hash__(self) -> int:
        return hash(self.history)

    def __lt__(self, other: State) -> bool:
        return self.history < other.history

    def __le__(self, other: State) -> bool:
        return self.history <= other.history

    def __gt__(self, other: State) -> bool:
        return self.history > other.history

    def __ge__(self, other: State) -> bool:
        return self.history >= other.history


class Model:
    """score, full_scores, perplexity, and stepping, as kenlm.Model has them.

    path          a run folder (text or bytes), or an open Scorer
    config        accepted as kenlm's second argument and not used
    normalized    compute log Z exactly
    calibration   instead of the one in use in the run
    """

    def __init__(
        self, path: Text | Path | Scorer, config: Config | None = None, *, normalized: bool = False, calibration: str | None = None
    ) -> None:  # fmt: skip
        if config is not None and not hasattr(config, "load_method"):
            raise TypeError(f"config must be a Config, found {type(config).__name__}; normalized= is a keyword")
        if isinstance(path, Scorer):
            opened, name = path, ""
        else:
            name = str(Path(os.fsdecode(path)).absolute())
            opened = _opened(name, normalized, calibration)
        self.scorer, self.path = opened.with_log_z(normalized or opened.normalized), os.fsencode(name)
        self._how: dict[str, Any] = {"normalized": normalized, "calibration": calibration}

    @property
    def order(self) -> int:
        """0: the history is not bounded."""
        return 0

    def __repr__(self) -> str:
        return f"<Model from {Path(os.fsdecode(self.path)).name!r}>"

    def __reduce__(self) -> tuple[Callable[[], Model], tuple[()]]:
        if not self.path:
            raise TypeError(
                "a model made from an open Scorer cannot be sent to another process; make it from its run folder"
            )
        return partial(type(self), self.path, **self._how), ()

    def __contains__(self, word: Text) -> bool:
        return _text(word) in ("<s>", "</s>") or self._id(word) != self.scorer.vocab.unk

    def score(self, sentence: Text, bos: bool = True, eos: bool = True) -> float:
        """The log10 score of a sentence of words separated by spaces."""
        return math.fsum(score for score, _, _ in self.full_scores(sentence, bos, eos))

    def perplexity(self, sentence: Text) -> float:
        """10 to the minus mean log10 score of the words and </s>."""
        words = len(_text(sentence).split()) + 1  # </s>
        return float(10.0 ** (-self.score(sentence) / words))

    def full_scores(self, sentence: Text, bos: bool = True, eos: bool = True) -> Iterator[tuple[float, int, bool]]:
        """(log10 score, words of history used plus one, out of vocabulary) for each word and </s>."""
        ids = [self._id(word) for word in _text(sentence).split()]
        targets = [*ids, *([self.scorer.vocab.eos] if eos else [])]
        scores = self.scorer.batch([ids], eos)[0].tolist() if bos else list(self._stepped(targets))
        for place, (score, word) in enumerate(zip(scores, targets, strict=True)):
            yield score / LOG10, place + 1 + bos, word == self.scorer.vocab.unk

    def _stepped(self, ids: list[int]) -> Iterator[float]:
        before = self.scorer.nothing()
        for word in ids:
            score, before = self.scorer.step(before, word)
            yield score

    def BeginSentenceWrite(self, state: State) -> None:
        """The state at the beginning of a sentence."""
        state.set((self.scorer.vocab.eos,), self.scorer.start())

    def NullContextWrite(self, state: State) -> None:
        """The state without any history."""
        state.set((), self.scorer.nothing())

    def BaseScore(self, in_state: State, word: Text, out_state: State) -> float:
        """The log10 score of a word after `in_state`; `out_state` becomes the state after it."""
        return self.BaseFullScore(in_state, word, out_state).log_prob

    def BaseFullScore(self, in_state: State, word: Text, out_state: State) -> FullScoreReturn:
        """The same with the length of the history and whether the word is out of vocabulary."""
        if in_state.before is None:
            raise ValueError("the state is empty: call BeginSentenceWrite or NullContextWrite first")
        history, w = in_state.history, self._id(word)
        score, before = self.scorer.step(in_state.before, w)
        out_state.set((*history, w), before)
        return FullScoreReturn(score / LOG10, len(history) + 1, w == self.scorer.vocab.unk)

    def _id(self, word: Text) -> int:
        vocab, word = self.scorer.vocab, _text(word)
        return vocab.eos if word == "</s>" else vocab.index.get(word, vocab.unk)


class LanguageModel(Model):
    """kenlm's older name of Model."""


def _text(text: Text) -> str:
    if isinstance(text, bytes):
        return text.decode("utf-8")
    if not isinstance(text, str):
        raise TypeError(f"Cannot convert {type(text).__name__} to string.")
    return text


def _opened(name: str, normalized: bool, calibration: str | None) -> Scorer:
    if not Path(name).is_dir():
        raise OSError(f"Cannot read model '{name}': there is no such run folder")
    try:
        return selfnorm.load(name, normalized=normalized, calibration=calibration)
    except selfnorm.NotSelfNormalized:
        raise
    except UserError as error:
        raise OSError(f"Cannot read model '{name}': {error}") from error

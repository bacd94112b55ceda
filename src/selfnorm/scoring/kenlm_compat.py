"""kenlm.Model's interface: code written for kenlm runs on a selfnorm model unchanged. Scores are log10, as there.

from selfnorm.scoring import kenlm_compat
model = kenlm_compat.Model("runs/nce")      # instead of kenlm.Model("lm.arpa")
model.score("this is a sentence", bos=True, eos=True)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import selfnorm
from selfnorm.scoring.scorer import Before, Scorer


class State:
    """Where a sentence stands; filled by BeginSentenceWrite, NullContextWrite and BaseScore."""

    def __init__(self) -> None:
        self.before: Before | None = None


class Model:
    """score, full_scores, perplexity, and stepping with BaseScore, as kenlm.Model has them."""

    def __init__(self, run: str | Path | Scorer, normalized: bool = False) -> None:
        opened = run if isinstance(run, Scorer) else selfnorm.load(run, normalized=normalized)
        self.scorer = opened.with_log_z(normalized or opened.normalized)
        self.path = "" if isinstance(run, Scorer) else str(run)
        self.order = 0  # unbounded history

    def __contains__(self, word: str) -> bool:
        return word in ("<s>", "</s>") or self._id(word) != self.scorer.vocab.unk

    def score(self, sentence: str, bos: bool = True, eos: bool = True) -> float:
        return sum(score for score, _, _ in self.full_scores(sentence, bos, eos))

    def perplexity(self, sentence: str) -> float:
        words = len(sentence.split()) + 1  # </s>
        return float(10.0 ** (-self.score(sentence) / words))

    def full_scores(self, sentence: str, bos: bool = True, eos: bool = True) -> Iterator[tuple[float, int, bool]]:
        """(log10 score, words of history used plus one, out of vocabulary) for each word and </s>."""
        before = self.scorer.start() if bos else self.scorer.nothing()
        for place, word in enumerate([*sentence.split(), *(["</s>"] if eos else [])]):
            score, before = self.scorer.step(before, self._id(word))
            yield score / math.log(10), place + 1 + bos, self._id(word) == self.scorer.vocab.unk

    def BeginSentenceWrite(self, state: State) -> None:
        state.before = self.scorer.start()

    def NullContextWrite(self, state: State) -> None:
        state.before = self.scorer.nothing()

    def BaseScore(self, in_state: State, word: str, out_state: State) -> float:
        if in_state.before is None:
            raise ValueError("the state is empty: call BeginSentenceWrite or NullContextWrite first")
        score, out_state.before = self.scorer.step(in_state.before, self._id(word))
        return score / math.log(10)

    def _id(self, word: str) -> int:
        vocab = self.scorer.vocab
        return vocab.eos if word == "</s>" else vocab.index.get(word, vocab.unk)

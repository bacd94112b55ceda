"""n-gram models (ARPA or KenLM binary files, through the kenlm package): as a baseline, and mixed with ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from selfnorm._util.errors import UserError, missing_extra
from selfnorm.scoring.scorer import Scorer
from selfnorm.tasks.arpa import check_arpa, check_in_a_process

Array = NDArray[np.float64]


class Ngram:
    """Natural-log word scores of an n-gram model, with the end of the sentence as a word."""

    def __init__(self, path: Path) -> None:
        try:
            import kenlm
        except ImportError:
            raise missing_extra("kenlm", "ngram", "Reading n-gram models") from None
        self.path = path
        if not path.is_file():
            raise UserError(f"{path} does not exist. Give an ARPA file or a KenLM binary.")
        check_arpa(path)
        check_in_a_process(path)
        try:
            self.model = kenlm.Model(str(path))
        except OSError as error:
            raise UserError(f"{path} is not an ARPA or KenLM file ({str(error).splitlines()[0]}).") from None

    def __reduce__(self) -> tuple[type[Ngram], tuple[Path]]:
        return Ngram, (self.path,)  # another process reads the file again

    def words(self, words: Sequence[str]) -> Array:
        scores = [score for score, _, _ in self.model.full_scores(" ".join(words))]
        return np.array(scores) * math.log(10)


@dataclass(frozen=True)
class Mixture:
    """Perplexities on a text: ours, the n-gram's, and of p = (1 - weight)·ours + weight·ngram, word by word."""

    weight: float
    neural: float
    ngram: float
    mixed: float
    words: int


def mix_words(neural: Array, ngram: Array, weight: float) -> Array:
    """log((1 - weight) e^neural + weight e^ngram); a probability if both are."""
    if weight <= 0 or weight >= 1:
        return neural if weight <= 0 else ngram
    return np.logaddexp(math.log1p(-weight) + neural, math.log(weight) + ngram)


def word_scores(scorer: Scorer, ngram: Ngram, lines: Iterable[str]) -> tuple[Array, Array]:
    """Both models' scores of every word of the lines, each line a sentence. Both see our vocabulary's <unk>."""
    known, ours, theirs = scorer.vocab.index, [], []
    texts = [[word if word in known else "<unk>" for word in line.split()] for line in lines]
    for words, scores in zip(texts, scorer.stream(texts), strict=True):
        ours.append(scores)
        theirs.append(ngram.words(words))
    if not ours:
        raise UserError("The text to mix on is empty.")
    return np.concatenate(ours), np.concatenate(theirs)


def best_weight(neural: Array, ngram: Array, rounds: int = 60) -> float:
    """The linear weight that maximizes held-out likelihood, by EM: it never gets worse."""
    weight = 0.5
    for _ in range(rounds):
        share = np.exp(math.log(weight) + ngram - mix_words(neural, ngram, weight))
        weight = float(np.clip(share.mean(), 1e-6, 1 - 1e-6))
    return weight


def mixture(held_out: tuple[Array, Array], test: tuple[Array, Array]) -> Mixture:
    """Tune the weight on one text and measure on another."""
    weight = best_weight(*held_out)
    neural, ngram = test
    mixed = mix_words(neural, ngram, weight)
    ours, theirs, both = (float(np.exp(-x.mean())) for x in (neural, ngram, mixed))
    return Mixture(weight, ours, theirs, both, len(neural))

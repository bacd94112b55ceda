"""LmScorer: a causal language model of transformers with the face of Scorer, for score, rescore, verdict and complete.

Exact scores need no (T, V) logits: log Z is summed in blocks of words. With a normalizer fitted by `selfnorm audit`, only the rows
of the words asked for are touched, and what the normalizer costs.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfnorm._util.devices import HOST
from selfnorm._util.errors import NotSelfNormalized, UserError
from selfnorm._util.files import read_json
from selfnorm.calibration.normalize import load_normalizer
from selfnorm.hf.opening import Opened, open_model
from selfnorm.hf.tree import TreeContexts
from selfnorm.hf.words import Words
from selfnorm.nn.output import Output
from selfnorm.scoring.scorer import Array, Before, Scorer, Sentence
from selfnorm.scoring.trie import Trie

TOKENS = 4096  # run at a time, padding included


class LmVocab:
    """What the tasks ask of a vocabulary. Every text can be written in the tokens of a language model, so nothing is unknown."""

    unk = -1

    def __init__(self, words: Words) -> None:
        self.eos, self.start = words.end_id, words.start_id

    def ids(self, words: Iterable[str]) -> list[int]:
        return [0 for _ in words]


class LmModel:
    """Encoder and output layer of a language model; the state is the model's own cache of keys and values."""

    def __init__(self, opened: Opened, output: Output) -> None:
        self.opened, self.output = opened, output

    def contexts(self, tokens: Tensor, state: Any, rng: torch.Generator | None = None) -> tuple[Tensor, Any]:
        """(B, T) ids after a state -> c (B, T, d) and the next state; the one given stays as it is."""
        with torch.no_grad():
            past = {} if state is None else {"past_key_values": copy.deepcopy(state)}
            c, outputs = self.opened.adapter.run(tokens, use_cache=True, **past)
        following = getattr(outputs, "past_key_values", None)
        if following is None:
            raise UserError(
                f"{self.opened.source.label} keeps no cache of keys and values, so it cannot be stepped through."
            )
        return c.float().cpu(), following


class LmScorer(Scorer):
    """Natural-log scores of sentences under a language model. The scores of a word's tokens are summed."""

    def __init__(
        self, opened: Opened, words: Words | None = None, output: Output | None = None, normalized: bool = True
    ) -> None:
        self.opened, self.words = opened, words or Words(opened.tokenizer)
        self.model: Any = LmModel(opened, output or opened.adapter.head)
        self.vocab: Any = LmVocab(self.words)
        self.normalized, self.unk_penalty = normalized, 0.0
        self.device = HOST  # where context vectors and scores are; the model itself may be elsewhere
        self.tokenize, self.tokenizer = str.split, "subwords"
        self.tree = TreeContexts(opened.adapter, self.vocab.start)

    def __repr__(self) -> str:
        how = "normalized" if self.normalized else "unnormalized"
        return f"LmScorer({self.opened.source.label}, V={self.model.output.V}, d={self.model.output.d}, {how})"

    def with_log_z(self, normalized: bool) -> LmScorer:
        other = copy.copy(self)
        other.normalized = normalized
        return other

    def ids(self, sentence: Sentence) -> list[int]:
        return self.words.ids(sentence)

    def word_scores(self, sentence: Sentence, eos: bool = True) -> Array:
        """The score of each word as blanks separate them, the sum over its tokens, and of the end."""
        return next(self.stream([sentence], eos))

    def stream(self, sentences: Iterable[Sentence], eos: bool = True, size: int = 64) -> Iterator[Array]:
        waiting: list[tuple[list[int], Any]] = []
        for sentence in sentences:
            waiting.append(self.words.ids_and_words(sentence))
            if len(waiting) == size or sum(len(ids) for ids, _ in waiting) > TOKENS:
                yield from self._by_word(waiting, eos)
                waiting = []
        yield from self._by_word(waiting, eos)

    def _by_word(self, read: Sequence[tuple[list[int], Any]], eos: bool) -> Iterator[Array]:
        for (ids, place), scores in zip(read, self.batch([ids for ids, _ in read], eos), strict=True):
            sums: Array = np.bincount(place, scores[: len(ids)]).astype(np.float64) if ids else np.zeros(0)
            yield np.append(sums, scores[-1]) if eos else sums

    def batch(self, sentences: Sequence[Sequence[int]], eos: bool = True, size: int = 64) -> list[Array]:
        """Token scores of sentences given as ids, sentences of about the same length together."""
        results: list[Array] = [np.zeros(0)] * len(sentences)
        group: list[int] = []
        order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
        for place in [*order, -1]:
            full = place < 0 or (len(sentences[place]) + 1) * (len(group) + 1) > TOKENS or len(group) == size
            if group and full:
                for index, scores in zip(group, self._alike([sentences[i] for i in group], eos), strict=True):
                    results[index] = scores
                group = []
            group.append(place)
        return results

    def _alike(self, sentences: list[Sequence[int]], eos: bool) -> Iterator[Array]:
        end = [self.vocab.eos] if eos else []
        targets = [[*sentence, *end] for sentence in sentences]
        longest = max(map(len, targets), default=0)
        self._check_length(longest)
        w = torch.full((len(targets), max(1, longest)), self.vocab.eos)
        real = torch.zeros(w.shape, dtype=torch.bool)
        for row, words in enumerate(targets):
            w[row, : len(words)] = torch.tensor(words, dtype=torch.long)
            real[row, : len(words)] = True
        inputs = torch.cat([torch.full((len(w), 1), self.vocab.start), w[:, :-1]], dim=1)
        with torch.no_grad():
            c = self.opened.adapter.contexts(inputs).cpu()
            scores = self.at(w[real], c[real]).double().numpy()
        yield from np.split(scores, np.cumsum([len(words) for words in targets])[:-1])

    def _check_length(self, tokens: int) -> None:
        longest = self.tree.longest
        if longest is not None and tokens > longest:
            raise UserError(f"A text has {tokens:,} tokens, and the model reads at most {longest:,}. Split it.")

    def walk(self, trie: Trie, ends: set[int], log_z: bool, keep: Tensor | None) -> tuple[Array, Array, Array]:
        """As scoring/trie.py wants it: m into every node, m of the end after `ends`, and log Z in every context."""
        count, output = len(trie.word), self.model.output
        m, m_end, z = np.zeros(count), np.zeros(count), np.zeros(count)
        with torch.no_grad():
            c = self.tree(trie)
            if keep is not None:
                keep.copy_(c)
            if log_z:
                z[:] = output.log_z(c).double().numpy()
            word, parent = (
                torch.tensor(trie.word[1:], dtype=torch.long),
                torch.tensor(trie.parent[1:], dtype=torch.long),
            )
            m[1:] = output.m(word, c[parent]).double().numpy()
            last = torch.tensor(sorted(ends), dtype=torch.long)
            if len(last):
                m_end[last.numpy()] = output.m(torch.full_like(last, self.vocab.eos), c[last]).double().numpy()
        return m, m_end, z

    def start(self) -> Before:
        return self.read(Before(None, torch.zeros(1, self.model.output.d)), self.vocab.start)

    def nothing(self) -> Before:
        return self.start()

    def step(self, before: Before, word: int | str) -> tuple[float, Before]:
        """The score of a token (an id, or a text of one token) here, and the state after it."""
        ids = self.words.tokenizer(word, add_special_tokens=False)["input_ids"] if isinstance(word, str) else [word]
        score = 0.0
        for token in ids:
            with torch.no_grad():
                score += float(self.at(torch.tensor([token]), before.c))
            before = self.read(before, token)
        return score, before


def open_scorer(
    name: str, normalized: bool = True, calibration: str | Path | None = None, settings: Sequence[str] = ()
) -> LmScorer:
    """A scorer for "hf:FOLDER". calibration: a folder made by `selfnorm audit`, or a normalizer in it.

    settings: "key=value" with the keys of Words (case, space, start, end), dtype, remote_code, and cost or sigma, which choose among
    the normalizers of an audit. Without log Z a calibration is needed.
    """
    given = read_settings(settings)
    limits = {key: float(given.pop(key)) for key in ("cost", "sigma") if key in given}
    opened = open_model(name, given.pop("dtype", "float32"), given.pop("remote_code", "no") == "yes")
    words = Words(opened.tokenizer, **{**given, **({"space": given["space"] == "yes"} if "space" in given else {})})  # type: ignore[arg-type]
    head = opened.adapter.head
    if calibration in (None, "none", ""):
        if not normalized:
            raise NotSelfNormalized(
                f"{opened.source.label}: scores without log Z mean nothing for this model. Compute log Z, or calibrate: "
                "selfnorm audit MODEL TEXT --to FOLDER, then --calibration FOLDER."
            )
        return LmScorer(opened, words, head, normalized=True)
    path = chosen(Path(str(calibration)), **limits)
    return LmScorer(opened, words, load_normalizer(path, head).onto(head), normalized)


KEYS = ("case", "space", "start", "end", "dtype", "remote_code", "cost", "sigma")


def read_settings(settings: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in settings:
        key, equals, value = pair.partition("=")
        if not equals or key not in KEYS:
            raise UserError(f"--hf {pair}: key=value was expected, with a key of {', '.join(KEYS)}.")
        if key in ("space", "remote_code") and value not in ("yes", "no"):
            raise UserError(f"--hf {pair}: yes or no was expected.")
        if key in ("cost", "sigma") and not _above_0(value):
            raise UserError(f"--hf {pair}: a number above 0 was expected.")
        found[key] = value
    return found


def _above_0(value: str) -> bool:
    try:
        return 0 < float(value) < math.inf
    except ValueError:
        return False


def chosen(path: Path, cost: float | None = None, sigma: float | None = None) -> Path:
    """The normalizer of an audit that leaves least within a cost (0.5 of the head if not given), or the cheapest within a sigma."""
    if path.suffix == ".safetensors":
        return path
    found = read_json(path / "audit.json")
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in found["estimates"]:
        if row["estimate"] != "none":
            rows.setdefault(row["estimate"], []).append(row)
    worst = {kind: max(math.hypot(r["mu_z"], r["sigma_z"]) for r in every) for kind, every in rows.items()}
    costs = {kind: every[0]["cost"] for kind, every in rows.items()}
    if sigma is not None:
        fit = [kind for kind in worst if worst[kind] <= sigma and (cost is None or costs[kind] <= cost)]
        best = min(fit, key=lambda kind: costs[kind], default=None)
    else:
        fit = [kind for kind in worst if costs[kind] <= (0.5 if cost is None else cost)]
        best = min(fit, key=lambda kind: worst[kind], default=None)
    if best is None:
        known = "; ".join(f"{kind}: cost {costs[kind]:.3f}, leaves {worst[kind]:.3f}" for kind in worst)
        raise UserError(f"No estimate of {path} keeps within cost {cost}, sigma {sigma}. There are {known}.")
    return path / f"{best}.safetensors"

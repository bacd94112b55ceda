"""Score many hypotheses at once through one prefix trie: every distinct prefix runs through the encoder once.

Hypotheses of a list share most of their words, and every sentence starts alike, so one trie serves all lists of a
batch. It is walked level by level: all prefixes of the same length are one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from selfnorm._util.devices import moved
from selfnorm.nn.encoders import State, pick
from selfnorm.scoring.scorer import Scorer

Array = NDArray[np.float64]


@dataclass
class Trie:
    """Nodes are prefixes; node 0 is the empty one. `word` leads into a node from its `parent`."""

    parent: list[int] = field(default_factory=lambda: [-1])
    word: list[int] = field(default_factory=lambda: [-1])
    levels: list[list[int]] = field(default_factory=lambda: [[0]])
    children: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, words: Sequence[int]) -> list[int]:
        """The path of a hypothesis: its nodes after each word."""
        node, path = 0, []
        for depth, word in enumerate(words, 1):
            following = self.children.get((node, word))
            if following is None:
                following = len(self.word)
                self.children[node, word] = following
                self.parent.append(node)
                self.word.append(word)
                if depth == len(self.levels):
                    self.levels.append([])
                self.levels[depth].append(following)
            node = following
            path.append(node)
        return path


@dataclass(frozen=True)
class Scored:
    """One hypothesis: m of each word (with <eos> last), and log Z of each context where it was asked for."""

    m: Array
    log_z: Array | None

    def total(self, normalized: bool) -> float:
        """The hypothesis's score: Σ m, less Σ log Z if it is to be normalized."""
        return float(self.m.sum() - (self.log_z_sum if normalized else 0.0))

    @property
    def log_z_sum(self) -> float:
        return 0.0 if self.log_z is None else float(self.log_z.sum())


def score_together(
    scorer: Scorer, hypotheses: Sequence[Sequence[int]], eos: bool = True, log_z: bool = False
) -> list[Scored]:
    """Score hypotheses given as ids. Without `log_z` only the words named are touched."""
    trie = Trie()
    paths = [trie.add(words) for words in hypotheses]
    ends = {path[-1] if path else 0 for path in paths} if eos else set[int]()
    m, m_end, z = _walk(scorer, trie, ends, log_z)
    scored = []
    for path in paths:
        last = path[-1] if path else 0
        scores = np.append(m[path], m_end[last]) if eos else m[path]
        contexts = [trie.parent[node] for node in path] + ([last] if eos else [])
        scored.append(Scored(scores, z[contexts] if log_z else None))
    return scored


@dataclass(frozen=True)
class Walked:
    """Hypotheses through one trie without log Z: Σ m of each, the nodes of its contexts, and the context vector of every node."""

    m: Array
    contexts: list[NDArray[np.int64]]
    c: torch.Tensor  # (nodes, d)


def walk_together(scorer: Scorer, hypotheses: Sequence[Sequence[int]]) -> Walked:
    """Score hypotheses given as ids, each ended by <eos>, and keep the contexts, so that log Z can be computed where it is needed."""
    trie = Trie()
    paths = [trie.add(words) for words in hypotheses]
    c = torch.empty(len(trie.word), scorer.model.output.d, device=scorer.device)
    m, m_end, _ = _walk(scorer, trie, {path[-1] if path else 0 for path in paths}, False, c)
    sums = np.array([m[path].sum() + m_end[path[-1] if path else 0] for path in paths])
    contexts = [np.array([*(trie.parent[node] for node in path), path[-1] if path else 0]) for path in paths]
    return Walked(sums, contexts, c)


def _walk(
    scorer: Scorer, trie: Trie, ends: set[int], log_z: bool, keep: torch.Tensor | None = None
) -> tuple[Array, Array, Array]:
    """m into every node, m of <eos> after every node in `ends`, log Z in every node's context; contexts into `keep`."""
    if hasattr(scorer, "walk"):  # a language model walks a trie in its own way
        own: tuple[Array, Array, Array] = scorer.walk(trie, ends, log_z, keep)
        return own
    count, vocab = len(trie.word), scorer.vocab
    m, m_end, z = np.zeros(count), np.zeros(count), np.zeros(count)
    parent, word = np.asarray(trie.parent), np.asarray(trie.word)
    place = np.zeros(count, dtype=np.int64)  # of a node within its level
    state: State | None = None
    with torch.no_grad():
        for depth, level in enumerate(trie.levels):
            nodes = np.asarray(level)
            place[nodes] = np.arange(len(nodes))
            before = (
                None if state is None else pick(state, moved(torch.from_numpy(place[parent[nodes]]), scorer.device))
            )
            tokens = moved(torch.from_numpy(word[nodes] if depth else np.array([vocab.eos])), scorer.device)
            c, state = scorer.model.contexts(tokens.unsqueeze(1), before)
            c = c[:, 0]
            if keep is not None:
                keep[moved(torch.from_numpy(nodes), scorer.device)] = c
            if log_z:
                z[nodes] = scorer.model.output.log_z(c).cpu().double().numpy()
            ending = nodes[[node in ends for node in level]]
            if len(ending):
                m_end[ending] = _m(
                    scorer, np.full(len(ending), vocab.eos), c[moved(torch.from_numpy(place[ending]), scorer.device)]
                )
            if depth + 1 < len(trie.levels):
                after = np.asarray(trie.levels[depth + 1])
                m[after] = _m(scorer, word[after], c[moved(torch.from_numpy(place[parent[after]]), scorer.device)])
    return m, m_end, z


def _m(scorer: Scorer, words: NDArray[np.int64], c: torch.Tensor) -> Array:
    w = moved(torch.from_numpy(words), scorer.device)
    m: Array = scorer.penalized(w.cpu(), scorer.model.output.m(w, c).cpu().double()).numpy()
    return m

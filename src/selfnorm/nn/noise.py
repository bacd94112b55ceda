"""Noise: a distribution over words that can be sampled and evaluated at a cost free of V."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from selfnorm._util.devices import wide
from selfnorm._util.errors import UserError, nearest


class Noise(nn.Module):
    """Words drawn i.i.d. from fixed probabilities, with Walker's alias method: O(1) a word.

    Every probability is positive, because a target with q(w) = 0 would have an infinite NCE loss.
    """

    threshold: Tensor
    alias: Tensor
    _log_p: Tensor

    def __init__(self, probabilities: np.ndarray) -> None:
        super().__init__()
        q = np.asarray(probabilities, dtype=np.float64)
        if not (q > 0).all():
            raise ValueError("every noise probability must be positive; smooth the counts first")
        q = q / q.sum()
        threshold, alias = _alias(q)
        self.register_buffer("threshold", torch.from_numpy(threshold))
        self.register_buffer("alias", torch.from_numpy(alias))
        self.register_buffer("_log_p", torch.from_numpy(np.log(q)).float())

    def __len__(self) -> int:
        return len(self.alias)

    def sample(self, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
        device = self.alias.device
        slot = torch.randint(len(self), shape, generator=rng, device=device)
        coin = torch.rand(shape, generator=rng, dtype=wide(device), device=device)
        return torch.where(coin < self.threshold[slot], slot, self.alias[slot])

    def log_p(self, w: Tensor) -> Tensor:
        return self._log_p[w]


def _alias(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker's tables: slot i gives word i with probability threshold[i], else word alias[i]."""
    scaled = q * len(q)
    alias = np.arange(len(q))
    small = list(np.flatnonzero(scaled < 1))
    large = list(np.flatnonzero(scaled >= 1))
    threshold = scaled.tolist()
    while small and large:
        low, high = small.pop(), large[-1]
        alias[low] = high
        threshold[high] -= 1.0 - threshold[low]
        if threshold[high] < 1.0:
            small.append(large.pop())
    result = np.asarray(threshold)
    result[small + large] = 1.0  # what is left is 1 up to rounding
    return result, alias


class BigramNoise(nn.Module):
    """q(w | previous word): the training text's successors, mixed with a share of unigram noise.

    A draw picks a random occurrence of the previous word and takes what followed it, so neither
    drawing nor evaluating ever lists the vocabulary.
    """

    count: Tensor
    start: Tensor
    following: Tensor
    keys: Tensor
    times: Tensor

    def __init__(self, ids: np.ndarray, unigram: Noise, mix: float = 0.2) -> None:
        super().__init__()
        previous, following = ids[:-1].astype(np.int64), ids[1:].astype(np.int64)
        order = np.argsort(previous, kind="stable")
        counts = np.bincount(previous, minlength=len(unigram))
        self.unigram, self.mix, self.V = unigram, mix, len(unigram)
        keys, times = np.unique(previous * self.V + following, return_counts=True)
        start = np.concatenate([[0], np.cumsum(counts)[:-1]])
        tables = {"count": counts, "start": start, "following": following[order], "keys": keys, "times": times}
        for name, table in tables.items():
            self.register_buffer(name, torch.from_numpy(table))

    def __len__(self) -> int:
        return self.V

    def sample_after(self, previous: Tensor, k: int, rng: torch.Generator) -> Tensor:
        """(..., k) words, each following the word in `previous` (...)."""
        shape, device = (*previous.shape, k), previous.device
        before = previous.unsqueeze(-1).expand(shape)
        count = self.count[before]
        place = (torch.rand(shape, generator=rng, dtype=wide(device), device=device) * count).long()
        successor = self.following[(self.start[before] + place).clamp(max=len(self.following) - 1)]
        plain = (torch.rand(shape, generator=rng, device=device) < self.mix) | (count == 0)
        return torch.where(plain, self.unigram.sample(shape, rng), successor)

    def log_p_after(self, w: Tensor, previous: Tensor) -> Tensor:
        before = previous.expand_as(w)
        key = before * self.V + w
        place = torch.searchsorted(self.keys, key).clamp(max=len(self.keys) - 1)
        times = torch.where(self.keys[place] == key, self.times[place], 0)
        count = self.count[before]
        kind = wide(w.device)
        bigram = times.to(kind) / count.clamp(min=1)
        share = torch.where(count == 0, 1.0, self.mix)
        return ((1 - share) * bigram + share * self.unigram.log_p(w).to(kind).exp()).log().float()


def make_noise(kind: str, counts: np.ndarray, power: float = 1.0, ids: np.ndarray | None = None) -> Noise | BigramNoise:
    """Noise by name. Unseen words count as seen once, so that any word may be a target."""
    seen = np.maximum(np.asarray(counts, dtype=np.float64), 1.0)
    ranks = np.empty(len(seen))
    ranks[np.argsort(-seen, kind="stable")] = np.arange(1, len(seen) + 1)
    if kind == "unigram":
        return Noise(seen**power)
    if kind == "uniform":
        return Noise(np.ones_like(seen))
    if kind == "log_uniform":  # Zipf's law by rank, as word2vec-style samplers assume
        return Noise(np.log1p(1.0 / ranks))
    if kind == "bigram":
        if ids is None:
            raise ValueError("bigram noise needs the training ids")
        return BigramNoise(ids, Noise(seen**power))
    kinds = ("unigram", "uniform", "log_uniform", "bigram")
    raise UserError(f'criterion.noise = "{kind}" is unknown.{nearest(kind, kinds)} Known: {", ".join(kinds)}.')

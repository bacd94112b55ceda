"""Encoders turn the words so far into context vectors c. State goes in, state comes out.

A state is a list of tuples of tensors, one tuple a layer. Axis 1 of every tensor is the stream, and a state of zeros is the
state before any word. Everything that carries, restarts, selects or stores states relies on these two rules and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from selfnorm.config.recipe import Model
from selfnorm.registry import load
from selfnorm.registry.encoders import ENCODERS

State = list[tuple[Tensor, ...]]


class Encoder(Protocol):
    """What a registered encoder has: an nn.Module made from V and the recipe's [model] section.

    `table` (V, d) holds the word vectors; it is looked up with sparse gradients and may be shared with the output layer.
    `rng` is the random generator of dropout: given while training, None everywhere else. An encoder whose c depends on more than
    the last 128 words says so in `reach`: parallel streams of a text then start that many words early when it is measured.
    """

    d: int
    table: nn.Parameter

    def __call__(
        self, tokens: Tensor, state: State | None, rng: torch.Generator | None = None
    ) -> tuple[Tensor, State]: ...  # (B, T) ids -> c (B, T, d), next state

    def initialize(self, init: float, rng: torch.Generator) -> None:
        """Fresh weights from `rng` alone."""
        ...


def make_encoder(settings: Model, V: int) -> nn.Module:
    """The encoder that the recipe names, weights not initialized."""
    encoder: nn.Module = load(ENCODERS.find(settings.encoder).make)(V, settings)
    return encoder


def drop(x: Tensor, dropout: float, rng: torch.Generator | None) -> Tensor:
    """Dropout that takes its randomness from `rng`; without one, x itself."""
    if rng is None or dropout == 0:
        return x
    keep = torch.rand(x.shape, generator=rng, dtype=torch.float32, device=x.device).ge_(dropout)
    return x * keep.to(x.dtype).div_(1 - dropout)


def detach(state: State) -> State:
    return [tuple(part.detach() for part in layer) for layer in state]


def restart(state: State | None, fresh: Tensor | None) -> State | None:
    """The state with the streams marked in `fresh` (B,) set back to zero."""
    if state is None or fresh is None:
        return state
    keep = (~fresh).to(state[0][0].dtype)[None, :, None]
    return [tuple(part * keep for part in layer) for layer in state]


def pick(state: State, streams: Tensor) -> State:
    """The state of the named streams only, in that order."""
    return [tuple(part[:, streams] for part in layer) for layer in state]


def join(states: Sequence[State | None]) -> State | None:
    """The states of several streams as one. None is the state before any word; shorter memories are filled up with zeros in front."""
    known = [state for state in states if state is not None]
    if not known:
        return None
    blank: State = [tuple(torch.zeros_like(part[:, :1]) for part in layer) for layer in known[0]]
    rows = [state or blank for state in states]
    return [
        tuple(_aligned([row[layer][part] for row in rows]) for part in range(len(blank[layer])))
        for layer in range(len(blank))
    ]


def _aligned(parts: list[Tensor]) -> Tensor:
    longest = max(len(part) for part in parts)
    filled = [torch.cat([part.new_zeros(longest - len(part), *part.shape[1:]), part]) for part in parts]
    return torch.cat(filled, dim=1)

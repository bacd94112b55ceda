"""Encoders turn the words so far into context vectors c. State goes in, state comes out."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfnorm.errors import UserError, nearest

State = list[tuple[Tensor, ...]]  # per layer, each tensor (1, B, d)


class Encoder(Protocol):
    """Anything of this shape can be an encoder.

    `rng` is the chance that dropout needs: given while training, None everywhere else.
    """

    d: int

    def __call__(
        self, tokens: Tensor, state: State | None, rng: torch.Generator | None = None
    ) -> tuple[Tensor, State]: ...  # (B, T) ids -> c (B, T, d), next state


class Recurrent(nn.Module):
    """A word table and a stack of recurrent layers, dropout on the non-recurrent connections.

    The word table is looked up with sparse gradients: a window touches only the rows it names.
    Zaremba et al. (2014); section 5.1 of the paper.
    """

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], V: int, d: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.d, self.dropout = d, dropout
        self.table = nn.Parameter(torch.empty(V, d))
        self.layers = nn.ModuleList(kind(d, d) for _ in range(layers))

    def forward(self, tokens: Tensor, state: State | None, rng: torch.Generator | None = None) -> tuple[Tensor, State]:
        x = self._drop(F.embedding(tokens.t(), self.table, sparse=True), rng)  # (T, B, d)
        following: State = []
        for index, layer in enumerate(self.layers):
            x, after = layer(x, _unpack(state[index]) if state else None)
            x = self._drop(x, rng)
            following.append(after if isinstance(after, tuple) else (after,))
        return x.transpose(0, 1), following

    def _drop(self, x: Tensor, rng: torch.Generator | None) -> Tensor:
        if rng is None or self.dropout == 0:
            return x
        keep = torch.rand(x.shape, generator=rng, dtype=torch.float32).ge_(self.dropout)
        return x * keep.to(x.dtype).div_(1 - self.dropout)


def _unpack(state: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
    return state if len(state) > 1 else state[0]


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


KINDS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}


def make_encoder(kind: str, V: int, d: int, layers: int, dropout: float) -> Recurrent:
    if kind not in KINDS:
        raise UserError(f'model.encoder = "{kind}" is unknown.{nearest(kind, KINDS)} Known: {", ".join(KINDS)}.')
    return Recurrent(KINDS[kind], V, d, layers, dropout)

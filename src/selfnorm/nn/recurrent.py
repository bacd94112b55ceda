"""Recurrent encoders: LSTM and GRU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfnorm._util.devices import is_host
from selfnorm.config.recipe import Model
from selfnorm.nn import amx, int16
from selfnorm.nn.encoders import State, drop
from selfnorm.nn.precision import products


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

    def initialize(self, init: float, rng: torch.Generator) -> None:
        """Every weight uniform in [-init, init]."""
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-init, init, generator=rng)

    def forward(self, tokens: Tensor, state: State | None, rng: torch.Generator | None = None) -> tuple[Tensor, State]:
        x = drop(F.embedding(tokens.t(), self.table, sparse=True), self.dropout, rng)  # (T, B, d)
        following: State = []
        after: Tensor | tuple[Tensor, ...]
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, nn.RNNBase)
            if state and _single(x):
                x, after = _step(layer, x, state[index])
            else:
                x, after = _layer(layer, x, state[index] if state else None)
            x = drop(x, self.dropout, rng)
            following.append(after if isinstance(after, tuple) else (after,))
        return x.transpose(0, 1), following


def _single(x: Tensor) -> bool:
    """One word at a time without gradients, as in stepping and in prefix tries: a cell is several times quicker than a layer."""
    return len(x) == 1 and not torch.is_grad_enabled() and not torch.compiler.is_compiling()


def _step(layer: nn.RNNBase, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """What the layer does to one word (1, B, d), by the cell."""
    weights = layer.all_weights[0]  # input, hidden, and their biases
    if isinstance(layer, nn.LSTM):
        h, c = torch.lstm_cell(x[0], [part[0] for part in state], *weights)
        return h.unsqueeze(0), (h.unsqueeze(0), c.unsqueeze(0))
    h = torch.gru_cell(x[0], state[0][0], *weights)
    return h.unsqueeze(0), (h.unsqueeze(0),)


def _layer(
    layer: nn.RNNBase, x: Tensor, state: tuple[Tensor, ...] | None
) -> tuple[Tensor, Tensor | tuple[Tensor, ...]]:
    """A window (T, B, d) through a layer. On a CPU an LSTM is in bf16 only by our own kernels: torch's fails without AVX-512,
    and gains nothing with it."""
    if products() == "int16" and isinstance(layer, nn.LSTM) and torch.is_grad_enabled() and int16.usable(x):
        return int16.lstm(layer, x, state)
    if is_host(x.device) and isinstance(layer, nn.LSTM) and torch.is_autocast_enabled(x.device.type):
        if torch.is_grad_enabled() and amx.usable(x):
            return amx.lstm(layer, x, state)
        with torch.autocast(x.device.type, enabled=False):
            return layer(x, _unpack(state) if state else None)  # type: ignore[no-any-return]
    return layer(x, _unpack(state) if state else None)  # type: ignore[no-any-return]


def _unpack(state: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
    return state if len(state) > 1 else state[0]


def lstm(V: int, settings: Model) -> Recurrent:
    return Recurrent(nn.LSTM, V, settings.d, settings.layers, settings.dropout)


def gru(V: int, settings: Model) -> Recurrent:
    return Recurrent(nn.GRU, V, settings.d, settings.layers, settings.dropout)

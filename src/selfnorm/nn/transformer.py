"""A causal transformer whose memory is carried from window to window.

Every word attends to itself and the `memory` words before it, in every layer. The layer inputs of the last `memory` words are
the state, so the context vectors do not depend on how a text is divided into windows: scoring word by word gives what scoring
whole sentences gives. Positions are relative (rotary). Dai et al. (2019); Su et al. (2021).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfnorm.config.recipe import Model
from selfnorm.nn.encoders import State, drop

STD = 0.02  # of fresh weights


class Transformer(nn.Module):
    """A word table, pre-norm blocks, and a last norm whose result is c."""

    def __init__(self, V: int, settings: Model) -> None:
        super().__init__()
        self.d, self.dropout, self.memory = settings.d, settings.dropout, settings.memory
        self.reach = settings.memory * settings.layers  # every layer reaches `memory` words further back
        self.table = nn.Parameter(torch.empty(V, settings.d))
        self.blocks = nn.ModuleList(Block(settings.d, settings.heads) for _ in range(settings.layers))
        self.norm = nn.LayerNorm(settings.d)

    def initialize(self, init: float, rng: torch.Generator) -> None:
        """Normal weights of a small spread, word vectors as the recipe's `init` says; norms and biases as usual."""
        with torch.no_grad():
            self.table.uniform_(-init, init, generator=rng)
            for module in self.modules():
                if isinstance(module, nn.Linear):
                    module.weight.normal_(0.0, STD, generator=rng)
                    module.bias.zero_()

    def forward(self, tokens: Tensor, state: State | None, rng: torch.Generator | None = None) -> tuple[Tensor, State]:
        x = drop(F.embedding(tokens, self.table, sparse=True), self.dropout, rng)  # (B, T, d)
        following: State = []
        for index, block in enumerate(self.blocks):
            before, valid = state[index] if state else _empty(x)
            inputs = torch.cat([before.transpose(0, 1), x], dim=1)
            known = torch.cat([valid.transpose(0, 1), x.new_ones(*x.shape[:2], 1)], dim=1)
            x = block(x, inputs, _visible(known.squeeze(-1), x.shape[1], self.memory), self.dropout, rng)
            kept = (inputs[:, -self.memory :], known[:, -self.memory :])
            following.append(tuple(part.transpose(0, 1) for part in kept))
        return self.norm(x), following


class Block(nn.Module):
    """Attention and a feed-forward network, each behind a norm and added to its input."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.query, self.keys = nn.Linear(d, d), nn.Linear(d, 2 * d)
        self.join = nn.Linear(d, d)
        self.wide, self.narrow = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(
        self, x: Tensor, inputs: Tensor, visible: Tensor, dropout: float, rng: torch.Generator | None
    ) -> Tensor:
        B, T, d = x.shape
        past = inputs.shape[1] - T
        k, v = self.keys(self.norm_1(inputs)).view(B, past + T, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        q = self.query(self.norm_1(x)).view(B, T, self.heads, -1).transpose(1, 2)
        seen = F.scaled_dot_product_attention(_turn(q, past), _turn(k, 0), v, attn_mask=visible)
        x = x + drop(self.join(seen.transpose(1, 2).reshape(B, T, d)), dropout, rng)
        fed: Tensor = self.narrow(F.gelu(self.wide(self.norm_2(x))))
        return x + drop(fed, dropout, rng)


def _empty(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_zeros(0, len(x), x.shape[2]), x.new_zeros(0, len(x), 1)


def _visible(known: Tensor, T: int, memory: int) -> Tensor:
    """Which of the past + T inputs each of the T words may see (B, 1, T, past + T): known, not ahead, within memory."""
    place = torch.arange(known.shape[1], device=known.device)
    behind = place[-T:].unsqueeze(1) - place.unsqueeze(0)
    return ((behind >= 0) & (behind <= memory) & (known > 0).unsqueeze(1)).unsqueeze(1)


def _turn(x: Tensor, first: int) -> Tensor:
    """Rotary positions first, first + 1, … along axis 2 of (B, heads, T, size): products depend on distances alone."""
    half = x.shape[-1] // 2
    rate = 10_000.0 ** (-torch.arange(half, dtype=torch.float32, device=x.device) / half)
    place = torch.arange(first, first + x.shape[2], dtype=torch.float32, device=x.device)
    angle = (place.unsqueeze(1) * rate).to(x.dtype)
    one, two = x[..., :half], x[..., half:]
    return torch.cat([one * angle.cos() - two * angle.sin(), one * angle.sin() + two * angle.cos()], dim=-1)

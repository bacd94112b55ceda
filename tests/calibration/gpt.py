"""A small model like GPT-2 in plain torch: learned positions, pre-norm blocks, a head without bias that shares the embedding's table.

It is trained for a few seconds on a made-up language in which every word has two likely successors, and whose ids are not
sorted by frequency.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads, self.before, self.between = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.mix = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.feed = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x: Tensor) -> Tensor:
        B, T, d = x.shape
        q, k, v = self.qkv(self.before(x)).view(B, T, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.mix(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, d))
        out: Tensor = x + self.feed(self.between(x))
        return out


class Gpt(nn.Module):
    """`hidden(ids)` (B, T, d) is what the model feeds its head; `forward` gives logits."""

    def __init__(self, V: int, d: int, layers: int = 2, heads: int = 4, positions: int = 32) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, d), nn.Embedding(positions, d)
        self.blocks = nn.Sequential(*(Block(d, heads) for _ in range(layers)))
        self.last, self.lm_head = nn.LayerNorm(d), nn.Linear(d, V, bias=False)
        nn.init.normal_(self.wte.weight, std=0.1)
        self.lm_head.weight = self.wte.weight

    def hidden(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        out: Tensor = self.last(self.blocks(x))
        return out

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.lm_head(self.hidden(ids))
        return out


def language(V: int, n: int, rng: torch.Generator, T: int = 24) -> Tensor:
    """Sentences (n, T + 1): with probability 0.8 one of two successors of the last word, otherwise a Zipfian word."""
    names = torch.randperm(V, generator=torch.Generator().manual_seed(7))
    zipf = 1 / torch.arange(1, V + 1).float()
    follow = torch.multinomial(zipf, 2 * V, True, generator=torch.Generator().manual_seed(8)).view(V, 2)
    words = [torch.multinomial(zipf, n, True, generator=rng)]
    for _ in range(T):
        next_one = follow[words[-1], torch.randint(2, (n,), generator=rng)]
        free = torch.multinomial(zipf, n, True, generator=rng)
        words.append(torch.where(torch.rand(n, generator=rng) < 0.8, next_one, free))
    return names[torch.stack(words, 1)]


def trained_gpt(V: int = 400, d: int = 32, steps: int = 150) -> Gpt:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Gpt(V, d)
    rng, optimizer = torch.Generator().manual_seed(1), torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(steps):
        ids = language(V, 32, rng)
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()

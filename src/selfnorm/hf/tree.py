"""Context vectors of all prefixes in a trie, each computed once.

The prefixes go through the model as one sequence in which a token sees its ancestors and nothing else, and stands at the
position of its depth: keys and values of a shared prefix serve all that continue it. A trie is cut into pieces in depth-first
order; a piece needs only the path to its first node besides its own nodes. Models that do not take such masks, which is tried
once, get each hypothesis as a sequence of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from selfnorm._util.errors import UserError
from selfnorm.hf.adapter import Adapter
from selfnorm.scoring.trie import Trie

PIECE = 256  # nodes of a sequence
TOKENS = 2048  # tokens run at a time, padding included
DEEPEST = 2048  # a mask of all pairs is held: longer texts are run as sequences


class TreeContexts:
    """contexts(trie) for a model and the token that every hypothesis starts after."""

    def __init__(self, adapter: Adapter, start: int) -> None:
        self.adapter, self.start = adapter, start
        config = adapter.model.config
        self.longest = getattr(config, "max_position_embeddings", None)
        self.window = getattr(config, "sliding_window", None) or self.longest or 1 << 30
        self.shares: bool | None = None  # are prefixes shared? None: not tried yet

    def __call__(self, trie: Trie) -> Tensor:
        """c (nodes, d) of every prefix, float32."""
        depth = len(trie.levels)
        if self.longest is not None and depth > self.longest:
            raise UserError(f"A text has {depth - 1:,} tokens, and the model reads at most {self.longest:,}. Split it.")
        if self.shares is None:
            self.shares = self._tried()
        return self._tree(trie) if self.shares and depth <= min(self.window, DEEPEST) else self._paths(trie)

    def _tried(self) -> bool:
        """Does the model give the same contexts in a tree as in sequences?"""
        trie, V = Trie(), len(self.adapter.linear.weight)
        for words in ([3, 5, 7, 9], [3, 5, 8, 2], [4, 6, 1]):
            trie.add([w % V for w in words])
        plain = self._paths(trie)
        try:
            found = self._tree(trie)
        except (TypeError, ValueError, RuntimeError, IndexError):
            return False
        close = 0.05 if self.adapter.linear.weight.dtype in (torch.bfloat16, torch.float16) else 1e-3
        return bool((found - plain).abs().max() <= close * plain.abs().max().clamp(min=1e-6))

    # With shared prefixes

    def _tree(self, trie: Trie) -> Tensor:
        c = torch.empty(len(trie.word), self.adapter.head.d)
        for batch in _batches(list(pieces(trie, max(PIECE, len(trie.levels))))):  # a path is run again in each
            found = self._rows(trie, [nodes for nodes, _ in batch])
            for row, (nodes, new) in zip(found, batch, strict=True):
                c[torch.tensor(nodes[-new:])] = row[len(nodes) - new : len(nodes)]
        return c

    def _rows(self, trie: Trie, rows: list[list[int]]) -> Tensor:
        """Contexts (rows, longest, d): each row a list of nodes in which every node comes after its parent."""
        length, kind = max(map(len, rows)), self.adapter.linear.weight.dtype
        ids, depth = torch.full((2, len(rows), length), self.start)
        sees = torch.eye(length, dtype=torch.bool).repeat(len(rows), 1, 1)
        depth.zero_()
        for r, nodes in enumerate(rows):
            place = {node: i for i, node in enumerate(nodes)}
            for i, node in enumerate(nodes):
                if node:
                    up = place[trie.parent[node]]
                    ids[r, i], depth[r, i] = trie.word[node], depth[r, up] + 1
                    sees[r, i] |= sees[r, up]
        mask = torch.zeros(sees.shape, dtype=kind).masked_fill_(~sees, torch.finfo(kind).min).unsqueeze(1)
        device = self.adapter.device
        c = self.adapter.contexts(ids, attention_mask=mask.to(device), position_ids=depth.to(device))
        return c.float().cpu()

    # Each hypothesis alone

    def _paths(self, trie: Trie) -> Tensor:
        c = torch.empty(len(trie.word), self.adapter.head.d)
        inner = set(trie.parent)
        paths = sorted((_path(trie, node) for node in range(len(trie.word)) if node not in inner), key=len)
        for batch in _batches([(path, len(path)) for path in paths]):
            ids = torch.full((len(batch), max(len(path) for path, _ in batch)), self.start)
            for r, (path, _) in enumerate(batch):
                ids[r, 1 : len(path)] = torch.tensor([trie.word[node] for node in path[1:]], dtype=torch.long)
            found = self.adapter.contexts(ids).float().cpu()
            for row, (path, _) in zip(found, batch, strict=True):
                c[torch.tensor(path)] = row[: len(path)]
        return c


def pieces(trie: Trie, size: int) -> Iterator[tuple[list[int], int]]:
    """Nodes of a sequence, parents first, and how many at its end are new; the others are the path to the first new one."""
    order = depth_first(trie)
    for at in range(0, len(order), size):
        new = order[at : at + size]
        yield _path(trie, new[0])[:-1] + new, len(new)


def depth_first(trie: Trie) -> list[int]:
    children: list[list[int]] = [[] for _ in trie.word]
    for node in range(1, len(trie.word)):
        children[trie.parent[node]].append(node)
    order, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += reversed(children[node])
    return order


def _path(trie: Trie, node: int) -> list[int]:
    path = []
    while node >= 0:
        path.append(node)
        node = trie.parent[node]
    return path[::-1]


def _batches(rows: list[tuple[list[int], int]]) -> Iterator[list[tuple[list[int], int]]]:
    """Rows that are run together: TOKENS at most, padding included."""
    batch: list[tuple[list[int], int]] = []
    for row in rows:
        longest = max([len(row[0]), *(len(nodes) for nodes, _ in batch)])
        if batch and longest * (len(batch) + 1) > TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch

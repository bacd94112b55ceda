"""Ids to windows: B parallel streams, T steps at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from selfnorm._util.errors import UserError


@dataclass(frozen=True)
class Window:
    """inputs (B, T) are the words before targets (B, T).

    `counted` (B, T) marks the targets that are measured; `fresh` (B,) the streams that start from zero here.
    """

    inputs: Tensor
    targets: Tensor
    counted: Tensor | None = None
    fresh: Tensor | None = None


class Windows:
    """Training windows: the text as B long streams, T steps at a time, in order; a rest too short is dropped."""

    def __init__(self, ids: np.ndarray, B: int, T: int) -> None:
        length = (len(ids) - 1) // B
        self.B, self.T, self.count = B, T, length // T
        if self.count == 0:
            raise UserError(
                f"The training text has {len(ids):,} tokens, too few for one window of {B} x {T} (at least {B * T + 1:,}). "
                "Give more text, or lower training.batch or training.steps."
            )
        self.ids, self.starts = ids, np.arange(B)[:, None] * length

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Window:
        places = self.starts + np.arange(index * self.T, (index + 1) * self.T + 1)
        chunk = torch.from_numpy(self.ids[places].astype(np.int64))
        return Window(chunk[:, :-1], chunk[:, 1:])


def evaluation_windows(ids: np.ndarray, streams: int = 16, T: int = 64, warmup: int = 128) -> Iterator[Window]:
    """Every word but the first is predicted once, state carried.

    One stream would be exact and slow. Here `streams` run side by side, each started `warmup` words
    early so that its state has forgotten the cold start by the time its own words are counted.
    """
    total = len(ids) - 1
    streams = max(1, min(streams, total // (4 * warmup) or 1))
    own = -(-total // streams)
    first = np.arange(streams) * own  # the first input that counts, per stream
    lead = -(-warmup // T) * T if streams > 1 else 0
    for start in range(-lead, own, T):
        offsets = np.arange(start, min(start + T, own)) if start >= 0 else np.arange(start, start + T)
        places = first[:, None] + offsets
        counted = (offsets >= 0) & (places < total)
        places = places.clip(0, total - 1)
        inputs, targets = ids[places].astype(np.int64), ids[places + 1].astype(np.int64)
        fresh = torch.arange(streams) == 0 if start == 0 else None  # nothing precedes the first stream
        yield Window(torch.from_numpy(inputs), torch.from_numpy(targets), torch.from_numpy(counted), fresh)

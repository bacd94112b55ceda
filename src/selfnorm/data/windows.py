"""Ids to windows: B parallel streams, T steps at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from selfnorm._util.devices import HOST, moved
from selfnorm._util.errors import UserError

WARMUP = 128  # words after which a recurrent state has forgotten how it started


@dataclass(frozen=True)
class Window:
    """inputs (B, T) are the words before targets (B, T).

    `counted` (B, T) marks the targets that are measured; `fresh` (B,) the streams that start from zero here. Where several
    processes share a batch, these are the streams from `first` on of the `whole` window.
    """

    inputs: Tensor
    targets: Tensor
    counted: Tensor | None = None
    fresh: Tensor | None = None
    whole: Window | None = None
    first: int = 0

    def to(self, device: torch.device) -> Window:
        counted, fresh = (None if x is None else moved(x, device) for x in (self.counted, self.fresh))
        return Window(moved(self.inputs, device), moved(self.targets, device), counted, fresh)

    @property
    def batch(self) -> Window:
        """The window of all streams, whichever process has them: itself where there is one process."""
        return self.whole or self

    def mine(self, x: Tensor) -> Tensor:
        """Of a tensor over all streams (B, …), those of this window."""
        return x if self.whole is None else x[self.first : self.first + len(self.targets)]


class Windows:
    """Training windows: the text as B long streams, T steps at a time, in order; a rest too short is dropped.

    Of `processes` processes, the one with number `rank` has B / processes neighbouring streams.
    """

    def __init__(
        self, ids: np.ndarray, B: int, T: int, device: torch.device = HOST, rank: int = 0, processes: int = 1
    ) -> None:
        if B % processes:
            raise UserError(
                f"training.batch = {B} streams cannot be divided over {processes} processes. Set training.batch to a multiple, "
                "or start another number of processes."
            )
        length = (len(ids) - 1) // B
        self.B, self.T, self.count, self.device = B, T, length // T, device
        self.own = range(rank * B // processes, (rank + 1) * B // processes)
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
        chunk = moved(torch.from_numpy(self.ids[places].astype(np.int64)), self.device)
        whole = Window(chunk[:, :-1], chunk[:, 1:])
        if len(self.own) == self.B:
            return whole
        mine = slice(self.own.start, self.own.stop)
        return Window(whole.inputs[mine], whole.targets[mine], whole=whole, first=self.own.start)


def evaluation_windows(ids: np.ndarray, streams: int = 16, T: int = 64, warmup: int = WARMUP) -> Iterator[Window]:
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
        fresh = torch.from_numpy(np.arange(streams) == 0) if start == 0 else None  # nothing precedes the first stream
        yield Window(torch.from_numpy(inputs), torch.from_numpy(targets), torch.from_numpy(counted), fresh)

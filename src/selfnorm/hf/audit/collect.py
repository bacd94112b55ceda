"""Walk a text once: context vectors to a file, and for each token its score, exact log Z and entropy.

Never more than a block of scores is held. What is done stays on disk window by window, so that a stopped audit goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from selfnorm.hf.adapter import Adapter
from selfnorm.hf.audit.text import Text

Array = NDArray[np.float64]
COLUMNS = ("token", "position", "m", "log_z", "entropy")


@dataclass(frozen=True)
class Walked:
    """A text's contexts c (n, d), on disk, and columns (n,) of numbers, window after window."""

    text: Text
    c: NDArray[np.float32]
    columns: dict[str, Array]

    @property
    def log_z(self) -> Array:
        return self.columns["log_z"]

    @property
    def log_p(self) -> Array:
        return self.columns["m"] - self.columns["log_z"]

    @property
    def entropy(self) -> Array:
        return self.columns["entropy"]

    @property
    def window_of(self) -> NDArray[np.int64]:
        return np.arange(len(self.log_z)) // self.text.counted


class _Files:
    """Two growing files; a half-written window is cut off."""

    def __init__(self, folder: Path, d: int, each: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.c, self.numbers = folder / "contexts.f32", folder / "tokens.f64"
        self.sizes = {self.c: 4 * d * each, self.numbers: 8 * len(COLUMNS) * each}
        for file in self.sizes:
            file.touch()
        self.done = min(file.stat().st_size // size for file, size in self.sizes.items())
        for file, size in self.sizes.items():
            with file.open("r+b") as handle:
                handle.truncate(self.done * size)

    def add(self, c: NDArray[np.float32], numbers: Array) -> None:
        for file, values in ((self.c, c), (self.numbers, numbers)):
            with file.open("ab") as handle:
                handle.write(np.ascontiguousarray(values).tobytes())


def walk(adapter: Adapter, text: Text, folder: Path, advance: Callable[[float], None] = lambda n: None) -> Walked:
    """All windows of a text, those that an earlier call finished not again."""
    each, d = text.counted, adapter.head.d
    files = _Files(folder, d, each)
    advance(files.done * each)
    for place in range(files.done, text.windows):
        window = text.window(place)
        c = adapter.contexts(window.unsqueeze(0))[0, :-1].float().cpu()
        files.add(c.numpy(), numbers_of(adapter, c, window[1:]))
        advance(each)
    numbers = np.fromfile(files.numbers).reshape(-1, len(COLUMNS))[: text.windows * each]
    contexts = np.memmap(files.c, np.float32, "r", shape=(len(numbers), d))
    return Walked(text, contexts, {name: numbers[:, i].copy() for i, name in enumerate(COLUMNS)})


def numbers_of(adapter: Adapter, c: torch.Tensor, w: torch.Tensor) -> Array:
    """Rows of COLUMNS for the contexts (n, d) of a window and the tokens (n,) that follow."""
    with torch.no_grad():
        log_z, entropy = adapter.head.log_z_and_entropy(c)
        m = adapter.head.m(w, c)
    columns = (w, torch.arange(len(w)), m, log_z, entropy)
    return np.column_stack([column.double().cpu().numpy() for column in columns])

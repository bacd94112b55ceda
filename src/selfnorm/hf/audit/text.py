"""A text as windows of tokens. Each window is run alone; the tokenizer decides whether a start token stands before it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfnorm._util.errors import UserError
from selfnorm._util.files import read_text


@dataclass(frozen=True)
class Text:
    """ids (n,) of a text, cut into windows of `size` tokens, `start` tokens before each included."""

    name: str
    ids: NDArray[np.int64]
    size: int
    start: tuple[int, ...] = ()

    @property
    def step(self) -> int:
        return self.size - len(self.start)

    @property
    def windows(self) -> int:
        return len(self.ids) // self.step

    @property
    def counted(self) -> int:
        """Contexts of a window: every token that follows another."""
        return self.size - 1

    def window(self, place: int) -> Tensor:
        """The tokens (size,) of one window."""
        part = self.ids[place * self.step : (place + 1) * self.step]
        return torch.from_numpy(np.concatenate([np.array(self.start, dtype=np.int64), part]))

    def fingerprint(self, *more: str) -> str:
        digest = hashlib.sha256("\n".join(more).encode())
        digest.update(np.array([self.size, *self.start], dtype=np.int64).tobytes())
        digest.update(self.ids.tobytes())
        return digest.hexdigest()[:12]


def read(path: Path, tokenizer: Any, window: int, most: int, longest: int | None) -> Text:
    """The first `most` tokens of a file (0: all), or equally many of each file of a folder, in windows that fit the model."""
    if window < 2:
        raise UserError(f"window = {window}: at least 2 tokens are needed.")
    if longest is not None and window > longest:
        raise UserError(f"window = {window}, but the model reads at most {longest:,} tokens. Choose a smaller window.")
    text = Text(path.stem, np.zeros(0, dtype=np.int64), window, start_of(tokenizer))
    documents = _documents(path, tokenizer, most)
    whole = [ids[: len(ids) // text.step * text.step] for ids in documents]  # no window reaches into the next document
    text = replace(text, ids=np.concatenate(whole))
    if text.windows < 2:
        raise UserError(
            f"{path} has {sum(map(len, documents)):,} tokens in {len(documents):,} files, and two windows of {window} are needed. "
            "Give a longer text, more tokens (--tokens) or a smaller window (--window)."
        )
    return text


def _documents(path: Path, tokenizer: Any, most: int) -> list[NDArray[np.int64]]:
    files = sorted(path.glob("*.txt")) if path.is_dir() else [path]
    if not files:
        raise UserError(f"{path} holds no .txt files. Give a text, or a folder with one document in each .txt file.")
    each = -(-most // len(files))
    return [np.fromiter(_ids(read_text(file), tokenizer, each), dtype=np.int64) for file in files]


def _ids(content: str, tokenizer: Any, most: int, piece: int = 1 << 20) -> Iterator[int]:
    """Token ids, some lines at a time: tokenizing hundreds of megabytes at once takes gigabytes."""
    count, at = 0, 0
    while at < len(content) and (not most or count < most):
        end = content.find("\n", at + piece)
        end = len(content) if end < 0 else end + 1
        ids = tokenizer(content[at:end], add_special_tokens=False, verbose=False)["input_ids"]
        yield from ids[: most - count] if most else ids
        count, at = count + len(ids), end


def start_of(tokenizer: Any) -> tuple[int, ...]:
    """The start token that the tokenizer itself puts before a text, if it does."""
    bos = getattr(tokenizer, "bos_token_id", None)
    with_it = tokenizer("a", verbose=False)["input_ids"]
    return (bos,) if bos is not None and with_it[:1] == [bos] else ()

"""What checking the files of a run costs when it is opened, in processor time.

The median of interleaved openings with and without the manifest:

    python benchmarks/opening.py                 # V = 10,000 and 33,278 at d = 100 and 650

The first opening after a file was written hashes it; the next ones compare its size, times and inode with what was remembered.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from selfnorm._util.machine import machine, today
from selfnorm.config.recipe import Model, Recipe
from selfnorm.data.vocab import EOS, UNK, Vocab
from selfnorm.runs.folder import changing, create
from selfnorm.runs.opening import load
from selfnorm.runs.weights import fresh_model, save_weights

ROUNDS = 25


def make(folder: Path, V: int, d: int) -> None:
    """A run with fresh weights: opening costs the same whatever they are."""
    words = [EOS, UNK, *(f"w{i}" for i in range(V - 2))]
    run = create(folder, replace(Recipe(), model=Model(d=d)), Vocab(words, [1] * V), "benchmark")
    with changing(run) as new:
        save_weights(new, "best.safetensors", fresh_model(run.recipe, V))


def seconds(folder: Path) -> float:
    start = time.process_time()
    load(folder, normalized=True)
    return time.process_time() - start


def main() -> None:
    torch.set_num_threads(1)
    print(f"{machine()}, {today()}, one thread, processor time, median of {ROUNDS} interleaved openings")
    for V, d in ((10_000, 100), (10_000, 650), (33_278, 650)):
        with tempfile.TemporaryDirectory() as base:
            checked, plain = Path(base) / "checked", Path(base) / "plain"
            make(checked, V, d)
            make(plain, V, d)
            (plain / "manifest.json").unlink()
            time.sleep(0.2)  # times of a file that was just written tell nothing yet
            seconds(plain)
            first = seconds(checked)
            pairs = [(seconds(checked), seconds(plain)) for _ in range(ROUNDS)]
            with_, without = (statistics.median(times) for times in zip(*pairs, strict=True))
            ratio = statistics.median(a / b for a, b in pairs)
            print(
                f"V = {V:,}, d = {d}: {1000 * without:.1f} ms without, {1000 * with_:.1f} ms with checks "
                f"(median ratio {ratio:.3f}), first opening {1000 * first:.1f} ms"
            )


if __name__ == "__main__":
    main()

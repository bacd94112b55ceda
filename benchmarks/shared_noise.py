"""A training step of NCE for each way to share its noise words: one set per window, more words in it, or one set per step.

    python benchmarks/shared_noise.py --to benchmarks/results/shared-noise.json

The ways take turns step by step; "window, k = 100" is 1. Float32, one thread, random words with Zipf's law.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import torch

from selfnorm._util.console import table
from selfnorm._util.devices import make_rng
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment
from selfnorm._util.memory import keep_freed_memory
from selfnorm.config.recipe import CriterionSettings, Model, Training
from selfnorm.criteria.build import make_criterion
from selfnorm.data.windows import Windows
from selfnorm.nn.model import build
from selfnorm.studies.bench.steps import zipf_counts
from selfnorm.studies.bench.timing import interleaved
from selfnorm.training.loop import Place, train

B, T = 20, 20
WAYS = {"window, k = 100": ("window", 100), "step, k = 100": ("step", 100), "window, k = 1,000": ("window", 1000)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, nargs="+", default=[30, 100, 300, 650])
    parser.add_argument("--V", type=int, nargs="+", default=[10_000, 33_278])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--to", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    rows = []
    for V, d in product(given.V, given.d):
        steps = {name: steps_of(shared, k, V, d) for name, (shared, k) in WAYS.items()}
        seconds = interleaved({name: lambda it=it: next(it) for name, it in steps.items()}, given.rounds)
        ratios = {name: seconds[name] / seconds["window, k = 100"] for name in WAYS}
        rows.append({"V": V, "d": d, "seconds": seconds, "ratios": ratios})
    cells = [
        [f"{r['V']:,}", str(r["d"]), f"{1000 * r['seconds']['window, k = 100']:.1f}"]
        + [f"{r['ratios'][name]:.2f}" for name in WAYS]
        for r in rows
    ]
    table("NCE steps; ratios to one set of 100 words per window", ["V", "d", "milliseconds", *WAYS], cells)
    if given.to:
        write_json(given.to, {"command": command_line(), **environment(), "rows": rows})


def steps_of(shared: str, k: int, V: int, d: int) -> Iterator[Place]:
    """Training steps, one after another, with the streams and steps of the paper."""
    counts, rng = zipf_counts(V), make_rng(1)
    ids = np.random.default_rng(0).choice(V, size=400 * B * T, p=counts / counts.sum())
    settings = CriterionSettings(name="nce", k=k, shared=shared)
    training = Training(epochs=10**6, learning_rate=0.01)
    return train(
        build(Model(d=d), V, rng), make_criterion(settings, counts, ids), Windows(ids, B, T), training, rng, Place()
    )


if __name__ == "__main__":
    main()

"""A training step of NCE for each way to share its noise words: one set per window, more words in it, or one set per step.

    python benchmarks/shared_noise.py --to benchmarks/results/shared-noise.json

The ways take turns step by step; "window, k = 100" is 1. Float32, one thread, random words with Zipf's law.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import torch
from precision import steps_of

from selfnorm._util.console import table
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment
from selfnorm._util.memory import keep_freed_memory
from selfnorm.config.recipe import CriterionSettings
from selfnorm.studies.bench.timing import interleaved

WAYS = {
    "window, k = 100": CriterionSettings(name="nce", k=100),
    "step, k = 100": CriterionSettings(name="nce", k=100, shared="step"),
    "window, k = 1,000": CriterionSettings(name="nce", k=1000),
}


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
        steps = {name: steps_of(settings, "float32", V, d) for name, settings in WAYS.items()}
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


if __name__ == "__main__":
    main()

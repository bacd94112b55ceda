"""A whole training step in float32 and in another `training.precision`: seconds and their ratio.

    python benchmarks/precision.py --to benchmarks/results/precision.json
    python benchmarks/precision.py --with int16 --threads 1 2 --to benchmarks/results/precision-int16.json

On a CPU with matrix tiles (AMX) bf16 uses our kernels (nn/amx), elsewhere torch's products. int16 is for CPUs with AVX2 or
AVX-512. The two take turns step by step.
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
from selfnorm.nn import amx, int16
from selfnorm.nn.model import build
from selfnorm.studies.bench.steps import zipf_counts
from selfnorm.studies.bench.timing import interleaved
from selfnorm.training.loop import Place, train

B, T = 20, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, nargs="+", default=[100, 300, 650])
    parser.add_argument("--V", type=int, default=10_000)
    parser.add_argument("--criteria", nargs="+", default=["nce", "softmax"])
    parser.add_argument("--with", dest="other", choices=["bf16", "int16"], default="bf16")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--to", type=Path)
    given = parser.parse_args()
    keep_freed_memory()
    both, rows = ("float32", given.other), []
    for threads, d, criterion in product(given.threads, given.d, given.criteria):
        torch.set_num_threads(threads)
        settings = CriterionSettings(name=criterion, shared="step")
        steps = {precision: steps_of(settings, precision, given.V, d) for precision in both}
        seconds = interleaved({name: lambda it=it: next(it) for name, it in steps.items()}, given.rounds)
        ratio = seconds["float32"] / seconds[given.other]
        rows.append({"criterion": criterion, "d": d, "V": given.V, "threads": threads, **seconds, "ratio": ratio})
    kernels = {"amx": amx.library() is not None, "int16": int16.library() is not None}
    found = {"command": command_line(), **environment(), **kernels, "rows": rows, "errors": errors()}
    cells = [
        [r["criterion"], str(r["d"]), str(r["threads"]), *(f"{1000 * r[p]:.1f}" for p in both), f"{r['ratio']:.2f}"]
        for r in rows
    ]
    table(f"milliseconds a step, V = {given.V:,}", ["criterion", "d", "threads", *both, "ratio"], cells)
    if given.to:
        write_json(given.to, found)


def errors() -> dict[str, dict[str, float]]:
    """Relative errors of a product of the size of an LSTM's: of normal numbers, and where one row of the right matrix is 10,000
    times as large as the others."""
    a, b = torch.randn(400, 650, generator=make_rng(1)), torch.randn(650, 2600, generator=make_rng(2))
    large = torch.cat([1e4 * b[:1], b[1:]])
    found = {}
    for name, right in (("normal numbers", b), ("one large row", large)):
        exact = a.double() @ right.double()
        tried = {"bf16": a.bfloat16().float() @ right.bfloat16().float()}
        if int16.library() is not None:
            tried["int16"] = int16.product(a, right)
        found[name] = {kind: float((m - exact).norm() / exact.norm()) for kind, m in tried.items()}
    return found


def steps_of(settings: CriterionSettings, precision: str, V: int, d: int) -> Iterator[Place]:
    """Training steps on random words with Zipf's law, one after another."""
    counts, rng = zipf_counts(V), make_rng(1)
    ids = np.random.default_rng(0).choice(V, size=400 * B * T, p=counts / counts.sum())
    training = Training(precision=precision, epochs=10**6, learning_rate=0.01)
    model = build(Model(d=d), V, rng)
    return train(model, make_criterion(settings, counts, ids), Windows(ids, B, T), training, rng, Place())


if __name__ == "__main__":
    main()

"""What helps a network to learn log Z: contexts, passes, width, depth, and features beside c.

    python benchmarks/calibration.py RUN [--contexts 300000] [--json FILE]

The features, all of the same moment: c, the top layer's output; `cell`, its LSTM's cell state; `frequent`, the log of the sum
of e^m over the 256 most frequent words, a cheap stand-in for log Z and for the entropy. sigma_z is what is left on
validation contexts. Words per second are those of the network alone, one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfnorm.batches import evaluation_windows
from selfnorm.calibrate import Budget, fit
from selfnorm.encoders import State, restart
from selfnorm.files import write_json
from selfnorm.memory import keep_freed_memory
from selfnorm.model import LanguageModel
from selfnorm.opening import open_with_text
from selfnorm.results import environment
from selfnorm.runs import load_model
from selfnorm.terminal import progress, table

FREQUENT = 256

# name: features, share of the contexts, passes, hidden sizes
VARIANTS: dict[str, tuple[tuple[str, ...], float, int, tuple[int, ...]]] = {
    "c, a third of the contexts": (("c",), 1 / 3, 8, (256, 256)),
    "c, 2 passes": (("c",), 1.0, 2, (256, 256)),
    "c, one layer of 256": (("c",), 1.0, 8, (256,)),
    "c, 64 and 64": (("c",), 1.0, 8, (64, 64)),
    "c": (("c",), 1.0, 8, (256, 256)),
    "c, three layers of 256": (("c",), 1.0, 8, (256, 256, 256)),
    "c and cell": (("c", "cell"), 1.0, 8, (256, 256)),
    "c and frequent": (("c", "frequent"), 1.0, 8, (256, 256)),
}


def gather(model: LanguageModel, ids: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """Features and exact log Z of `count` contexts, one step at a time because the cell state is needed at each."""
    rows: dict[str, list[np.ndarray]] = {"c": [], "cell": [], "frequent": [], "log_z": []}
    frequent = torch.arange(FREQUENT)
    with progress("contexts", count, "contexts") as advance:
        for c, cell in _steps(model, ids):
            found = {"c": c, "cell": cell, "frequent": model.output.m_shared(frequent, c).logsumexp(1, keepdim=True)}
            found["log_z"] = model.output.log_z(c)
            for name, values in found.items():
                rows[name].append(values.numpy())
            advance(len(c))
            count -= len(c)
            if count <= 0:
                break
    return {name: np.concatenate(parts) for name, parts in rows.items()}


def _steps(model: LanguageModel, ids: np.ndarray) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    state: State | None = None
    with torch.no_grad():
        for window in evaluation_windows(ids, streams=512, T=1, warmup=32):
            c, state = model.contexts(window.inputs, restart(state, window.fresh))
            if window.counted is not None and bool(window.counted.any()):
                yield c[window.counted], state[-1][1][0][window.counted[:, 0]]


def study(model: LanguageModel, train: np.ndarray, valid: np.ndarray, contexts: int) -> list[dict[str, Any]]:
    known, held = gather(model, train, contexts), gather(model, valid, len(valid) - 1)
    raw = float(held["log_z"].std())
    rows: list[dict[str, Any]] = [
        {"variant": "none", "contexts": 0, "sigma_z": raw, "seconds": 0.0, "words_per_s": None}
    ]
    for name, (features, share, passes, hidden) in VARIANTS.items():
        n, rng = int(share * len(known["c"])), torch.Generator().manual_seed(1)
        x, y = (np.concatenate([part[f] for f in features], axis=1) for part in (known, held))
        start = time.perf_counter()
        with progress(name, n * passes, "contexts") as advance:
            network = fit(x[:n], known["log_z"][:n], Budget(n, passes, 60, hidden), rng, advance)
        seconds, begun = time.perf_counter() - start, time.perf_counter()
        left = torch.from_numpy(held["log_z"]) - network(torch.from_numpy(y))
        rate = len(y) / (time.perf_counter() - begun)
        sigma = float(left.std())
        rows.append({"variant": name, "contexts": n, "sigma_z": sigma, "seconds": seconds, "words_per_s": rate})
    return rows


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("run", type=Path)
    arguments.add_argument("--contexts", type=int, default=300_000)
    arguments.add_argument("--json", type=Path, default=None)
    chosen = arguments.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    run, corpus = open_with_text(chosen.run)
    model = load_model(run, calibration="none").requires_grad_(False)
    rows = study(model, corpus["train"], corpus["valid"], chosen.contexts)
    shown = [
        [
            r["variant"],
            f"{r['contexts']:,}",
            f"{r['sigma_z']:.4f}",
            f"{r['seconds']:.0f}",
            f"{r['words_per_s'] or 0:,.0f}",
        ]
        for r in rows
    ]
    table(chosen.run.name, ["features and network", "contexts", "sigma_z left", "seconds", "words/s"], shown)
    if chosen.json:
        command = f"python benchmarks/calibration.py {chosen.run.name} --contexts {chosen.contexts}"
        write_json(chosen.json, {**environment(), "command": command, "rows": rows})


if __name__ == "__main__":
    main()

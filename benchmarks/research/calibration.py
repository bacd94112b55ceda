"""What helps a network to learn log Z: contexts, passes, width, depth, and features in addition to c.

    python benchmarks/research/calibration.py RUN [--contexts 300000] [--json FILE]

The features, all of the same moment: c, the top layer's output; `cell`, its LSTM's cell state; `frequent`, the log of the sum
of e^m over the most frequent words, a cheap part of log Z, with rows that stay (fixed) or are fitted too. sigma_z is what
is left on validation contexts. Words per second are those of the network alone, one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfnorm._util.console import progress, table
from selfnorm._util.files import write_json
from selfnorm._util.machine import environment
from selfnorm._util.memory import keep_freed_memory
from selfnorm.calibration.base import Budget
from selfnorm.calibration.mlp import fit, start_rows
from selfnorm.data.windows import evaluation_windows
from selfnorm.nn.encoders import State, restart
from selfnorm.nn.model import LanguageModel
from selfnorm.nn.normalizers import Mlp
from selfnorm.runs.loading import load_model
from selfnorm.runs.opening import open_with_text


@dataclass(frozen=True)
class Variant:
    features: tuple[str, ...] = ("c",)
    share: float = 1.0  # of the contexts
    passes: int = 8
    hidden: tuple[int, ...] = (256, 256)
    frequent: int = 0
    fixed: bool = False


VARIANTS = {
    "c, a third of the contexts": Variant(share=1 / 3),
    "c, 2 passes": Variant(passes=2),
    "c, one layer of 256": Variant(hidden=(256,)),
    "c, two layers of 64": Variant(hidden=(64, 64)),
    "c, two layers of 256": Variant(),
    "c, three layers of 256": Variant(hidden=(256, 256, 256)),
    "c and cell": Variant(("c", "cell")),
    "c and 256 frequent, fixed": Variant(frequent=256, fixed=True),
    "c and 256 frequent": Variant(frequent=256),
    "c and 64 frequent": Variant(frequent=64),
    "c and 1,024 frequent": Variant(frequent=1024),
    "c and 256 frequent, two layers of 128": Variant(hidden=(128, 128), frequent=256),
}


def gather(model: LanguageModel, ids: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """Features and exact log Z of `count` contexts, one step at a time because the cell state is needed at each."""
    rows: dict[str, list[np.ndarray]] = {"c": [], "cell": [], "log_z": []}
    with progress("contexts", count, "contexts") as advance:
        for c, cell in _steps(model, ids):
            features = {"c": c, "cell": cell, "log_z": model.output.log_z(c)}
            for name, values in features.items():
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


def study(model: LanguageModel, train: np.ndarray, valid: np.ndarray, contexts: int, only: str) -> list[dict[str, Any]]:
    known, held = gather(model, train, contexts), gather(model, valid, len(valid) - 1)
    raw = float(held["log_z"].std())
    rows: list[dict[str, Any]] = [
        {"variant": "none", "contexts": 0, "sigma_z": raw, "seconds": 0.0, "words_per_s": None}
    ]
    for name, variant in VARIANTS.items():
        if only in name:
            rows.append({"variant": name, **_fitted(model, variant, name, known, held)})
    return rows


def _fitted(
    model: LanguageModel, variant: Variant, name: str, known: dict[str, np.ndarray], held: dict[str, np.ndarray]
) -> dict[str, Any]:
    n, rng = int(variant.share * len(known["c"])), torch.Generator().manual_seed(1)
    x, y = (np.concatenate([part[f] for f in variant.features], axis=1) for part in (known, held))
    network = Mlp(x.shape[1], variant.hidden, min(variant.frequent, model.output.V))
    start_rows(network, model.output, torch.arange(network.frequent.out_features if network.frequent else 0))
    if variant.fixed and network.frequent is not None:
        network.frequent.requires_grad_(False)
    start = time.perf_counter()
    with progress(name, n * variant.passes, "contexts") as advance:
        fit(network, x[:n], known["log_z"][:n], Budget(n, variant.passes, 60, variant.hidden), rng, advance)
    seconds, begun = time.perf_counter() - start, time.perf_counter()
    with torch.no_grad():
        left = torch.from_numpy(held["log_z"]) - network(torch.from_numpy(y))
    rate = len(y) / (time.perf_counter() - begun)
    return {"contexts": n, "sigma_z": float(left.std()), "seconds": seconds, "words_per_s": rate}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("run", type=Path)
    arguments.add_argument("--contexts", type=int, default=300_000)
    arguments.add_argument("--only", default="", help="variants whose name contains this")
    arguments.add_argument("--json", type=Path, default=None)
    chosen = arguments.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    run, corpus = open_with_text(chosen.run)
    if run.recipe.model.encoder != "lstm":
        raise SystemExit("The cell state is an LSTM's: give a run with model.encoder = lstm.")
    model = load_model(run, calibration="none").requires_grad_(False)
    rows = study(model, corpus["train"], corpus["valid"], chosen.contexts, chosen.only)
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
        command = f"python benchmarks/research/calibration.py {chosen.run.name} --contexts {chosen.contexts} --only '{chosen.only}'"
        write_json(chosen.json, {**environment(), "command": command, "rows": rows})


if __name__ == "__main__":
    main()

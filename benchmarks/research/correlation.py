"""How far does the correlation of entropy and log Z depend on which contexts are sampled?

The paper's Table 5 was measured "on samples from the validation sets", of a size it does not give. This script measures the
whole set, then draws many samples of several sizes from it, scattered and in one piece, and leaves out the extreme contexts.

    python benchmarks/research/correlation.py RUN [RUN ...] --json FILE
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from selfnorm._util.console import progress, table
from selfnorm._util.files import write_json
from selfnorm._util.machine import environment
from selfnorm.evaluation.measure import Words, per_word
from selfnorm.runs.loading import load_model
from selfnorm.runs.opening import open_with_text

SAMPLES = 1000
SIZES = (500, 2_000, 10_000)


def correlation(h: np.ndarray, log_z: np.ndarray) -> float:
    return float(np.corrcoef(h, log_z)[0, 1])


def spread(words: Words, size: int, scattered: bool, rng: np.random.Generator) -> list[float]:
    """The 2.5, 50 and 97.5 % points of the correlation over samples of `size` contexts."""
    correlations = []
    for _ in range(SAMPLES):
        start = int(rng.integers(0, len(words.h) - size + 1))
        chosen = rng.choice(len(words.h), size, replace=False) if scattered else np.arange(start, start + size)
        correlations.append(correlation(words.h[chosen], words.log_z[chosen]))
    return [float(x) for x in np.quantile(correlations, [0.025, 0.5, 0.975])]


def without_lowest(words: Words, share: float) -> float:
    """The correlation without the share of contexts whose entropy is lowest."""
    kept = words.h >= np.quantile(words.h, share)
    return correlation(words.h[kept], words.log_z[kept])


def study(run: Path) -> dict[str, Any]:
    opened, corpus = open_with_text(run)
    ids = corpus["valid"]
    with progress(run.name, len(ids)) as advance:
        words = per_word(load_model(opened, calibration="none"), ids, advance=advance)
    rng = np.random.default_rng(0)
    row: dict[str, Any] = {"run": run.name, "words": len(words.h), "all": correlation(words.h, words.log_z)}
    for size in (n for n in SIZES if n < len(words.h)):
        row[f"scattered {size}"] = spread(words, size, True, rng)
        row[f"in one piece {size}"] = spread(words, size, False, rng)
    for share in (0.01, 0.05, 0.1, 0.25):
        row[f"without the lowest {100 * share:g} %"] = without_lowest(words, share)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows = [study(run) for run in asked.runs]
    shown = [
        [str(r["run"]), name, _show(value)] for r in rows for name, value in r.items() if name not in ("run", "words")
    ]
    table("Pearson's correlation of entropy and log Z", ["run", "contexts", "correlation"], shown)
    if asked.json:
        write_json(asked.json, {**environment(), "samples": SAMPLES, "rows": rows})


def _show(value: float | list[float]) -> str:
    return f"{value:.2f}" if isinstance(value, float) else f"{value[1]:.2f} ({value[0]:.2f} to {value[2]:.2f})"


if __name__ == "__main__":
    main()

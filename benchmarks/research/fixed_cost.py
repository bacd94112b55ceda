"""What a calibration leaves of log Z if it may cost a fixed share of a two-layer LSTM: `mlp` and `screen`, as large as that allows.

    python benchmarks/research/fixed_cost.py CONTEXTS [--shares 0.05 0.1] [--kinds mlp screen] [--passes 4] [--json FILE]

CONTEXTS is made by benchmarks/word_contexts.py. The LSTM takes 16 d² multiply-adds a word. Several sizes of each kind use up the
share; the one that leaves the least on the validation text is reported, with what it leaves on the test text.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import selfnorm as sn
from selfnorm._util.console import table
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment
from selfnorm.calibration.screen import sketched


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contexts", type=Path)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.05, 0.1])
    parser.add_argument("--kinds", nargs="+", default=["mlp", "screen"])
    parser.add_argument("--passes", type=float, default=4)
    parser.add_argument("--most", type=int, default=20_000, help="contexts of validation and test text")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    load = {path.stem: np.load(path, mmap_mode="r") for path in given.contexts.glob("*.npy")}
    head = sn.Output.from_rows(torch.from_numpy(load["head"].copy()), torch.from_numpy(load["bias"].copy()))
    tests = {name: some(load[f"{name}.c"], load[f"{name}.lz"], given.most) for name in ("valid", "test")}
    found: dict[str, Any] = {"command": command_line(), **environment(), "V": head.V, "d": head.d, "rows": []}
    found["sigma_z_before"] = {name: float(z.std()) for name, (_, z) in tests.items()}
    found["contexts"] = len(load["train.c"])
    for share in given.shares:
        for kind in given.kinds:
            tried = [
                measured(head, load["train.c"], tests, kind, size) for size in sizes(kind, share, head, given.passes)
            ]
            if tried:
                found["rows"].append(
                    {"share": share, **min(tried, key=lambda row: row["valid"]["sigma_z"]), "tried": tried}
                )
                show(found)
            if given.json:
                write_json(given.json, found)


def some(c: np.ndarray, log_z: np.ndarray, most: int) -> tuple[torch.Tensor, torch.Tensor]:
    chosen = np.linspace(0, len(c) - 1, min(most, len(c))).astype(np.int64)
    return torch.from_numpy(c[chosen]), torch.from_numpy(log_z[chosen]).double()


def sizes(kind: str, share: float, head: sn.Output, passes: float) -> Iterator[dict[str, Any]]:
    """Sizes that use up this share of the LSTM's multiply-adds, smallest previews first; none where nothing fits."""
    V, d, budget = head.V, head.d, share * 16 * head.d**2
    if kind == "mlp":
        units = 64 if d >= 300 else 32 if d >= 100 else 8
        rows = int((budget - (d + 1) * units - units * units - units) // d)
        if rows >= 16:
            yield {"frequent": rows, "hidden": (units, units), "passes": passes, "minutes": 60.0}
        return
    for part in (16, 12, 10, 8, 6, 5, 4):
        rank = d // part
        top = int((budget - d * (rank + sketched(d, rank)) - V * (rank + 1) / 4) // d)
        if rank >= 4 and top >= 16:
            yield {"rank": rank, "top": top}


@torch.no_grad()
def measured(head: sn.Output, c: np.ndarray, tests: dict[str, Any], kind: str, size: dict[str, Any]) -> dict[str, Any]:
    start = time.process_time()
    pieces = (
        torch.from_numpy(c[at : at + 65_536].copy()) for at in range(0, len(c) if kind == "mlp" else 131_072, 65_536)
    )
    g = sn.fit_normalizer(head, pieces, kind, progress=False, **size)
    row: dict[str, Any] = {"kind": kind, "size": {k: v for k, v in size.items() if k != "minutes"}}
    row |= {
        "share_of_lstm": g.multiply_adds() / (16 * head.d**2),
        "share_of_exact": g.multiply_adds() / head.weight.numel(),
    }
    row["cpu_seconds"] = time.process_time() - start
    for name, (x, z) in tests.items():
        rest = z - g(x).double()
        quantile = float(rest.abs().quantile(0.99))
        row[name] = {"mean": float(rest.mean()), "sigma_z": float(rest.std()), "quantile_99": quantile}
    print(kind, size, *(f"{name} {row[name]['mean']:+.4f} / {row[name]['sigma_z']:.4f}" for name in tests), flush=True)
    return row


def show(found: dict[str, Any]) -> None:
    cells = [
        [f"{r['share']:.0%}", r["kind"], str(r["size"]), f"{r['share_of_lstm']:.1%}", f"{r['share_of_exact']:.1%}"]
        + [f"{r[name]['mean']:+.4f} / {r[name]['sigma_z']:.4f}" for name in ("valid", "test")]
        for r in found["rows"]
    ]
    table(f"d = {found['d']}", ["share", "kind", "size", "of the LSTM", "of exact", "valid", "test"], cells)


if __name__ == "__main__":
    main()

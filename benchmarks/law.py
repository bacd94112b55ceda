"""How sigma_z left depends on the size of an estimate, and on how sure the model is. Draws docs/figures/why-*.svg with docs/generate.py.

    python benchmarks/law.py CONTEXTS --fit train --test test --to FILE.json

CONTEXTS as benchmarks/llm_head.py reads them. Sizes: rows K of `mlp`, rank r and top N of `screen`, top N of `int8`; each is one
fit. `by_entropy` has five groups of contexts of equal size, by the entropy of the exact distribution: how many words hold 90 %
of the sum there, and what each kind leaves.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from llm_head import optional
from torch import Tensor

import selfnorm as sn
from selfnorm._util.console import table
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment
from selfnorm.calibration.int8 import Int8
from selfnorm.calibration.screen import Screen
from selfnorm.nn.normalizers import Normalizer

ROWS = [16, 64, 256, 1024]
TOPS = [1, 16, 64, 256, 1024, 2048]
GROUPS = 5
Exact = dict[str, Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contexts", type=Path)
    parser.add_argument("--fit", nargs="+", required=True)
    parser.add_argument("--test", nargs="+", required=True)
    parser.add_argument("--fit-most", type=int, default=100_000)
    parser.add_argument("--most", type=int, default=1000, help="test contexts")
    parser.add_argument("--passes", type=float, default=4)
    parser.add_argument("--to", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    head = sn.Output.from_rows(torch.from_numpy(np.load(given.contexts / "head.npy")), optional(given.contexts, "bias"))
    fit, test = some(given.contexts, given.fit, given.fit_most), some(given.contexts, given.test, given.most)
    exact = exact_sums(head, test)
    rows: list[dict[str, Any]] = []
    found = {"command": command_line(), **environment(), "V": head.V, "d": head.d, "contexts": len(fit)}
    found |= {"test_contexts": len(test), "sigma_z": float(exact["log_z"].std()), "rows": rows}
    kept: dict[str, Tensor] = {}
    for kind, size, g in estimates(head, fit, given.passes):
        rest = exact["log_z"] - g(test).double()
        left = {"mean": float(rest.mean()), "sigma_z": float(rest.std())}
        rows.append({"kind": kind, **size, "cost": g.multiply_adds() / head.weight.numel(), **left})
        kept[name_of(rows[-1])] = rest
        print(rows[-1], flush=True)
        found |= {"by_entropy": by_entropy(exact, kept), "exponents": exponents(rows, head.V, head.d)}
        if given.to:
            write_json(given.to, found)
    table("left", ["estimate", "sigma_z"], [[name_of(r), f"{r['sigma_z']:.4f}"] for r in rows])


def name_of(row: dict[str, Any]) -> str:
    return ", ".join([row["kind"], *(f"{key} {row[key]}" for key in ("frequent", "rank", "top") if key in row)])


def some(folder: Path, names: list[str], most: int) -> Tensor:
    """At most so many contexts of these texts, taken at random."""
    every = np.concatenate([np.load(folder / f"{name}.c.npy", mmap_mode="r") for name in names])
    chosen = np.sort(np.random.default_rng(1).permutation(len(every))[:most])
    return torch.from_numpy(every[chosen])


@torch.no_grad()
def exact_sums(head: sn.Output, c: Tensor) -> Exact:
    """log Z, entropy, and the number of words that hold 90 % of the sum."""
    parts: dict[str, list[Tensor]] = {"log_z": [], "entropy": [], "words": []}
    for piece in torch.split(c, 64):
        m = head.all_m(piece).double()
        log_z = m.logsumexp(1)
        p = (m - log_z.unsqueeze(1)).exp_()
        parts["log_z"].append(log_z)
        parts["entropy"].append(log_z - (p * m).sum(1))
        parts["words"].append((p.float().sort(1, descending=True).values.cumsum(1) < 0.9).sum(1) + 1)
    return {name: torch.cat(values) for name, values in parts.items()}


def estimates(head: sn.Output, fit: Tensor, passes: float) -> Iterator[tuple[str, dict[str, int], Normalizer]]:
    """Every kind and size, made one after another."""
    d, V = head.d, head.V
    yield "affine", {}, sn.fit_normalizer(head, fit, "affine", progress=False)
    top = min(2048, V // 24)
    for rank in sorted({max(2, d // part) for part in (12, 6, 3, 2)}):
        g = sn.fit_normalizer(head, fit, "screen", rank=rank, top=top, progress=False)
        for n in sorted({top, *(t for t in TOPS if t <= V // 8)}) if rank == d // 3 else [top]:
            yield "screen", {"rank": rank, "top": n}, Screen(head, {**g.state_dict(), "top": torch.tensor(n)})
    g = sn.fit_normalizer(head, fit, "int8", progress=False)
    for n in (1, 16, 64, 256):
        yield "int8", {"top": n}, Int8(head, {**g.state_dict(), "top": torch.tensor(n)})
    for rows in ROWS:
        how: dict[str, Any] = {"frequent": rows, "passes": passes, "progress": False}
        yield "mlp", {"frequent": rows}, sn.fit_normalizer(head, fit, "mlp", **how)


def by_entropy(exact: Exact, kept: dict[str, Tensor]) -> list[dict[str, Any]]:
    groups = []
    for chosen in exact["entropy"].argsort().chunk(GROUPS):
        about = {
            "entropy": float(exact["entropy"][chosen].mean()),
            "words": float(exact["words"][chosen].double().median()),
        }
        groups.append(
            {**about, "left": {name: float(rest[chosen].square().mean().sqrt()) for name, rest in kept.items()}}
        )
    return groups


def exponents(rows: list[dict[str, Any]], V: int, d: int) -> dict[str, float]:
    """x of sigma_z ~ size^x by least squares on logarithms, for each size that was varied while the others stayed."""
    top = min(2048, V // 24)
    points = {
        "mlp, rows": [(r["frequent"], r["sigma_z"]) for r in rows if r["kind"] == "mlp"],
        "screen, rank": [(r["rank"], r["sigma_z"]) for r in rows if r["kind"] == "screen" and r["top"] == top],
        "screen, top": [
            (r["top"], r["sigma_z"]) for r in rows if r["kind"] == "screen" and r["rank"] == d // 3 and r["top"] >= 16
        ],
        "int8, top": [(r["top"], r["sigma_z"]) for r in rows if r["kind"] == "int8"],
    }
    return {name: float(np.polyfit(*np.log(some).T, 1)[0]) for name, some in points.items() if len(some) > 1}


if __name__ == "__main__":
    main()

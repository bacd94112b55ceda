"""Time of an estimated log Z over time of the exact one, by vocabulary, width and batch, beside the ratio of multiply-adds.

    python benchmarks/estimators.py [--seconds 6] [--memory 8] [--json FILE]

Rows and contexts are random and nothing is fitted: only time is measured here, what is left of sigma_z is measured by
benchmarks/llm_head.py. One thread, CPU time, exact and estimates in turns, medians. `screen` has rank d/3 in int8 and V/24
exact words (at most 2,048), `int8` 64 exact words, `mlp` 256 rows and two layers of 128. Sizes that need more memory
than --memory gigabytes are left out and listed. Sizes that are in FILE already are not measured again.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import selfnorm as sn
from selfnorm._util.console import table
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment
from selfnorm.calibration.int8 import Int8
from selfnorm.calibration.screen import Screen, sketched
from selfnorm.nn.int8 import Int8Rows
from selfnorm.nn.normalizers import Mlp, Normalizer

VOCABULARIES = [10_000, 33_278, 49_152, 262_144, 800_000]
WIDTHS = [100, 576, 650, 2048]
BATCHES = [1, 512]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, nargs="+", default=VOCABULARIES)
    parser.add_argument("--d", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--batch", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--seconds", type=float, default=6, help="for each size and batch")
    parser.add_argument("--memory", type=float, default=8, help="gigabytes")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {"command": command_line(), **environment(), "rows": [], "left_out": []}
    if given.json and given.json.exists():
        stored = json.loads(given.json.read_text(encoding="utf-8"))
        found |= {key: stored[key] for key in ("rows", "left_out")}
    known = {(row["V"], row["d"]) for row in found["rows"] + found["left_out"]}
    for V, d in sorted(((V, d) for V in given.vocab for d in given.d), key=lambda size: size[0] * size[1]):
        if (V, d) in known:
            continue
        if memory_of(V, d) > given.memory * 1e9:
            found["left_out"].append({"V": V, "d": d, "gigabytes": memory_of(V, d) / 1e9})
            print(f"V = {V:,}, d = {d:,} is left out: it needs about {memory_of(V, d) / 1e9:.1f} GB")
        else:
            found["rows"] += timed(V, d, given.batch, given.seconds)
            gc.collect()
        if given.json:
            write_json(given.json, found)
    show(found["rows"])


def memory_of(V: int, d: int) -> float:
    """Bytes: the head, its rows in eight bits, what onnxruntime holds of them while its session is made, and the preview."""
    return (4 + 1 + 5 + 2) * V * d


def timed(V: int, d: int, batches: list[int], seconds: float) -> list[dict[str, Any]]:
    rng = torch.Generator().manual_seed(0)
    head = sn.Output.from_rows(torch.randn(V, d, generator=rng).mul_(d**-0.5))
    made = {name: make(head, rng) for name, make in MAKE.items()}
    rows: list[dict[str, Any]] = []
    for n in batches:
        exact, *others = medians([head.log_z, *made.values()], torch.randn(n, d, generator=rng), seconds)
        for (name, g), estimate in zip(made.items(), others, strict=True):
            costs = {"cost": g.multiply_adds() / (V * d), "exact_ms": 1000 * exact, "estimate_ms": 1000 * estimate}
            rows.append({"V": V, "d": d, "batch": n, "estimate": name, **costs, "ratio": estimate / exact})
            print(f"{V:>9,} {d:>6,} {n:>4} {name:7} {estimate / exact:8.3f}", flush=True)
    return rows


def screen(head: sn.Output, rng: torch.Generator) -> Normalizer:
    V, d, rank = head.V, head.d, head.d // 3
    rows, scale = Int8Rows.quantized(torch.randn(V, rank + 1, generator=rng), torch.ones(rank + 1))
    project = torch.linalg.qr(torch.randn(d, d, generator=rng)).Q[:, : rank + sketched(d, rank)].contiguous()
    tensors = {"mean": torch.zeros(d), "project": project, "offset": torch.zeros(V), "factor": torch.ones(rank + 1)}
    return Screen(head, {**tensors, "preview": rows, "row_scale": scale, "top": torch.tensor(min(2048, V // 24))})


def int8(head: sn.Output, rng: torch.Generator) -> Normalizer:
    factor = torch.ones(head.d)
    rows, scale = Int8Rows.quantized(head.weight, factor)
    return Int8(head, {"rows": rows, "row_scale": scale, "factor": factor, "top": torch.tensor(64)})


def mlp(head: sn.Output, rng: torch.Generator) -> Normalizer:
    return Mlp(head.d, (128, 128), 256)


MAKE: dict[str, Callable[[sn.Output, torch.Generator], Normalizer]] = {"mlp": mlp, "screen": screen, "int8": int8}


@torch.no_grad()
def medians(works: list[Callable[[Tensor], Tensor]], c: Tensor, seconds: float) -> list[float]:
    """CPU seconds of each, in turns, at most 40. The first turn is not counted, unless it alone took longer than `seconds`."""
    taken: list[list[float]] = [[] for _ in works]
    begun = time.process_time()
    for turn in range(41):
        for work, times in zip(works, taken, strict=True):
            start = time.process_time()
            work(c)
            times.append(time.process_time() - start)
        if time.process_time() - begun > seconds and (turn > 1 or taken[0][0] > 1):
            break
    return [statistics.median(times[1:] or times) for times in taken]


def show(rows: list[dict[str, Any]]) -> None:
    kinds = list(MAKE)
    cells = []
    for V, d in dict.fromkeys((r["V"], r["d"]) for r in rows):
        here = {(r["estimate"], r["batch"]): r for r in rows if (r["V"], r["d"]) == (V, d)}
        batches = sorted({n for _, n in here})
        line = [f"{here[k, batches[0]]['cost']:.3f}" for k in kinds]
        cells.append([f"{V:,}", f"{d:,}", *line, *(f"{here[k, n]['ratio']:.2f}" for n in batches for k in kinds)])
    batches = sorted({r["batch"] for r in rows})
    heads = [f"{k}, multiply-adds" for k in kinds] + [f"{k}, time at {n}" for n in batches for k in kinds]
    table("estimated over exact", ["V", "d", *heads], cells)


if __name__ == "__main__":
    main()

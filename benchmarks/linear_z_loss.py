"""linear_z_loss against cross-entropy on logits: peak memory and CPU time of forward and backward, as ratios with bounds.

    python benchmarks/linear_z_loss.py [--json FILE]

Random hidden states and heads with gradients on both. Each side is measured in turn in one process; memory is the most that was
held beyond what was held before. Exits with 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from claim import AT_MOST, Claims

import selfnorm as sn
from selfnorm._util.memory import megabytes_of

SIZES = [(1024, 49_152, 576, torch.float32), (256, 262_144, 640, torch.float32)]


def works(N: int, V: int, d: int, dtype: torch.dtype) -> dict[str, Callable[[], None]]:
    rng = torch.Generator().manual_seed(0)
    hidden = torch.randn(N, d, generator=rng).to(dtype).requires_grad_()
    weight = (torch.randn(V, d, generator=rng) * 0.1).to(dtype).requires_grad_()
    labels = torch.randint(V, (N,), generator=rng)

    def clear() -> None:
        hidden.grad = weight.grad = None

    def logits() -> None:
        clear()
        F.cross_entropy((hidden @ weight.t()).float(), labels).backward()

    def logits_and_penalty() -> None:
        clear()
        sn.z_loss(hidden @ weight.t(), labels, 1e-4).total.backward()

    def fused() -> None:
        clear()
        sn.linear_z_loss(hidden, weight, labels, 1e-4).total.backward()

    return {"clear": clear, "cross_entropy": logits, "z_loss": logits_and_penalty, "linear_z_loss": fused}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--sizes", type=int, default=len(SIZES), help="so many of the sizes")
    arguments.add_argument("--json", type=Path, default=None)
    chosen = arguments.parse_args()
    torch.set_num_threads(1)
    claims = Claims()
    for N, V, d, dtype in SIZES[: chosen.sizes]:
        sides = works(N, V, d, dtype)
        clear = sides.pop("clear")
        memory = {}
        for name, work in sides.items():
            clear()
            memory[name] = megabytes_of(work) or 0.0
        taken: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(chosen.rounds):
            for name, work in sides.items():
                start = time.process_time()
                work()
                taken[name].append(time.process_time() - start)
        seconds = {name: statistics.median(values) for name, values in taken.items()}
        where = f"N = {N:,}, V = {V:,}, d = {d}, {str(dtype).removeprefix('torch.')}"
        ratio = memory["linear_z_loss"] / memory["cross_entropy"]
        claims.check(f"peak memory of linear_z_loss over cross_entropy, {where}", ratio, AT_MOST, 0.5, megabytes=memory)
        ratio = seconds["linear_z_loss"] / seconds["cross_entropy"]
        claims.check(f"CPU time of linear_z_loss over cross_entropy, {where}", ratio, AT_MOST, 1.0, seconds=seconds)
        print({**memory}, seconds, flush=True)
    return claims.finish(chosen.json, f"python benchmarks/linear_z_loss.py --rounds {chosen.rounds}")


if __name__ == "__main__":
    raise SystemExit(main())

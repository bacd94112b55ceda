"""Choose a calibration by budget: the best that costs at most so much, or the cheapest that leaves at most so much.

Cost is in multiply-adds per context as a share of the exact log Z's V·d; an int8 multiply-add counts as a quarter.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from selfnorm._util.errors import UserError
from selfnorm.calibration.base import Budget, Calibration, Task
from selfnorm.calibration.heldout import HeldOut, held_out
from selfnorm.nn.normalizers import Normalizer
from selfnorm.registry import load
from selfnorm.registry.calibrations import CALIBRATIONS

MEASURED = 4096  # held-out contexts that decide


@dataclass(frozen=True)
class Candidate:
    """A kind with its size, what it costs and, once it is fitted, what it leaves."""

    kind: str
    budget: Budget
    cost: float
    left: HeldOut | None = None

    def describe(self) -> str:
        how: Calibration = load(CALIBRATIONS[self.kind].make)()
        sizes = {name: getattr(self.budget, name) for name in ("rank", "top", "frequent") if name in how.options}
        return ", ".join([self.kind, *(f"{name} {value}" for name, value in sizes.items())])


def candidates(task: Task) -> Iterator[Candidate]:
    """Kinds and sizes worth trying on this head, cheapest first."""
    V, d, base = task.head.V, task.head.d, task.budget
    tops = [top for top in (64, 256, 1024, 2048) if top <= V // 8] or [max(1, V // 8)]
    ranks = sorted({max(4, d // 12), max(4, d // 6), max(4, d // 3), max(4, d // 2)})
    sized = [("affine", base)]
    sized += [("mlp", replace(base, frequent=f)) for f in (64, 256, 1024) if f <= V]
    if task.head.link != "log_sigmoid":
        sized += [("screen", replace(base, rank=r, top=t)) for r in ranks for t in tops if r < d]
    sized += [("int8", replace(base, top=t)) for t in (16, 64, 256) if t <= V]
    made = [Candidate(kind, b, load(CALIBRATIONS[kind].make)().cost(b, V, d) / (V * d)) for kind, b in sized]
    return iter(sorted(made, key=lambda one: one.cost))


def choose(
    task: Task,
    cost: float | None = None,
    sigma: float | None = None,
    tried: Callable[[Candidate], None] = lambda c: None,
) -> tuple[Candidate, Normalizer, list[Candidate]]:
    """The chosen candidate, its normalizer, and everything that was tried, cheapest first."""
    if (cost is None) == (sigma is None):
        raise UserError("Choose by cost or by sigma, one of them.")
    if not 0 < (cost if cost is not None else sigma or 0) < 1e6:
        raise UserError(f"cost = {cost}, sigma = {sigma}: a number above 0 was expected.")
    frontier: list[Candidate] = []
    best: tuple[Candidate, Normalizer] | None = None
    for one in candidates(task):
        if cost is not None and one.cost > cost:
            break
        normalizer, used = load(CALIBRATIONS[one.kind].make)().fit(
            replace(task, budget=one.budget, start=time.monotonic())
        )
        left = held_out(task.head, normalizer, task.held_out, MEASURED)
        one = replace(one, budget=used, left=left)
        frontier.append(one)
        tried(one)
        if math.isfinite(left.rms) and (best is None or left.rms < best[0].left.rms):  # type: ignore[union-attr]
            best = one, normalizer
        if sigma is not None and left.rms <= sigma:
            return one, normalizer, frontier
    if best is None:
        raise UserError(f"Nothing costs at most {cost} of the exact log Z on this head. Allow more.")
    if sigma is not None:
        raise UserError(
            f"Nothing leaves at most {sigma}; the best was {best[0].describe()} with {best[0].left.rms:.4f}."  # type: ignore[union-attr]
        )
    return *best, frontier

"""Fair timing on a noisy machine: things to compare take turns, and medians are compared."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping

Work = Callable[[], object]


LEAST = 0.25  # seconds of a turn


def interleaved(
    works: Mapping[str, Work],
    rounds: int,
    warm: int = 2,
    advance: Callable[[float], None] = lambda share: None,
    wait: Work = lambda: None,
) -> dict[str, float]:
    """Median seconds of each piece of work, run in turns so that noise falls on all alike.

    A short piece is repeated until its turn has lasted a while: a training step follows a step of its own kind, so
    it must not be charged for caches left cold by another piece a hundred times its size. `advance` hears of every
    turn, as a share of its piece; `wait` waits for a device that computes ahead.
    """
    turns = warm + rounds
    for _ in range(warm):
        for work in works.values():
            work()
            advance(1 / turns)
    gc.collect()
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            turn = time.perf_counter()
            while True:
                start = time.perf_counter()
                work()
                wait()
                spent[name].append(time.perf_counter() - start)
                if time.perf_counter() - turn > LEAST:
                    break
            advance(1 / turns)
    return {name: statistics.median(times) for name, times in spent.items()}

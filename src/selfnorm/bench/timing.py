"""Fair timing on a noisy machine: things to compare take turns, and medians are compared."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable, Mapping

Work = Callable[[], object]


def interleaved(works: Mapping[str, Work], rounds: int, warm: int = 2) -> dict[str, float]:
    """Median seconds of each piece of work, run in turns so that noise falls on all alike."""
    for _ in range(warm):
        for work in works.values():
            work()
    gc.collect()
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            spent[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in spent.items()}


def peak_megabytes() -> float:
    """The most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

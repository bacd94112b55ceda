"""Keep freed memory: large tensors come and go at every step, and getting them from the system again costs page faults.

glibc returns blocks above a threshold to the system at once. Told not to, a training step here ran 10 to 20 % faster
(docs/performance.md). Elsewhere than on glibc this does nothing.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> None:
    """Let the process hold up to 2 GiB of freed memory instead of giving every large block back."""
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(M_TOP_PAD, 64 << 20)


def peak_megabytes() -> float:
    """The most memory this process has held; 0 where the system cannot tell."""
    try:
        import resource
    except ImportError:  # not a Unix
        return 0.0
    unit = 2**20 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def megabytes_of(work: Callable[[], object]) -> float | None:
    """The most memory `work` held beyond what was held before it; None where the system cannot tell."""
    try:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is held now
        before = _status("VmRSS")
    except (OSError, AttributeError):
        return None
    work()
    return max(0.0, _status("VmHWM") - before)


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))

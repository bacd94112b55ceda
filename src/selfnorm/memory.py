"""Keep freed memory: large tensors come and go at every step, and getting them from the system again costs page faults.

glibc returns blocks above a threshold to the system at once. Told not to, a training step here ran 10 to 20 % faster
(docs/performance.md). Elsewhere than on glibc this does nothing.
"""

from __future__ import annotations

import ctypes
import resource
import sys

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
    """The most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

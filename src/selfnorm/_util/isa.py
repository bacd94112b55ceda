"""Which vector instructions torch and our own kernels may use. `limit` is to be called before torch is imported."""

from __future__ import annotations

import os
from pathlib import Path

AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
# what our kernels on matrix tiles need
TILES = {"amx_tile", "amx_bf16", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_bf16", "3dnowprefetch"}
# what our kernels on 16-bit numbers use beyond AVX2
SHORT = {"avx512f": "-mavx512f", "avx512bw": "-mavx512bw", "avx512vl": "-mavx512vl", "avx512_vnni": "-mavx512vnni"}
TILE_LEAF = 0x1D  # the page of cpuid that describes matrix tiles


def limit() -> None:
    """Set torch's environment variables where its own choice would be wrong; what the user has set stays.

    Kernels for AVX-512 round differently from those for AVX2. SELFNORM_ISA=avx2 makes a machine that has both use AVX2, so
    that its digits are those of a machine that has not (docs/reproduction.md). Some virtual machines have matrix tiles (AMX)
    but hide their description; there every bf16 product of torch fails ("could not create a primitive") unless told to do without.
    """
    if _avx2_only():
        wanted = AVX2
    elif hides_tiles():
        wanted = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"}
    else:
        return
    for name, value in wanted.items():
        os.environ.setdefault(name, value)


def uses_tiles() -> bool:
    """Has the CPU what our kernels on matrix tiles need, and has the user not decided against them?"""
    return os.environ.get("SELFNORM_AMX") != "0" and not _avx2_only() and set(cpuinfo("flags").split()) >= TILES


def vector_flags() -> tuple[str, ...]:
    """Compiler flags for AVX2 and FMA, where the CPU has them; other processors need none."""
    return ("-mavx2", "-mfma") if set(cpuinfo("flags").split()) >= {"avx2", "fma"} else ()


def short_flags() -> tuple[str, ...]:
    """Compiler flags for AVX-512 with dot products of 16-bit numbers (VNNI), where the CPU has them and the user lets us."""
    found = not _avx2_only() and set(cpuinfo("flags").split()) >= set(SHORT)
    return tuple(SHORT.values()) if found else ()


def _avx2_only() -> bool:
    return os.environ.get("SELFNORM_ISA", "").lower() == "avx2"


def hides_tiles() -> bool:
    """Has this machine AMX, and no page of cpuid about it?"""
    return "amx_tile" in cpuinfo("flags").split() and int(cpuinfo("cpuid level") or TILE_LEAF) < TILE_LEAF


def cpuinfo(key: str) -> str:
    """The first line of /proc/cpuinfo with this key; nothing where there is no such file."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")
    except OSError:
        return ""

"""What a measurement ran on: command line, date, machine and package versions."""

from __future__ import annotations

import datetime
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from selfnorm import __version__
from selfnorm._util.isa import cpuinfo, uses_tiles


def command_line() -> str:
    """How this program was called, without the folder it is installed in."""
    name = Path(sys.argv[0]).name
    return " ".join(["selfnorm" if name in ("__main__.py", "selfnorm") else name, *sys.argv[1:]])


def today() -> str:
    return datetime.date.today().isoformat()


def machine() -> str:
    """Processor, its widest vector instructions in use, cores and system: digits depend on the first two."""
    return f"{_processor()}, {instruction_set()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def instruction_set() -> str:
    """avx512 (and amx), avx2 or the architecture's name; avx2 where SELFNORM_ISA asks for it."""
    flags = set(cpuinfo("flags").split())
    widest = "avx512" if "avx512f" in flags else "avx2" if "avx2" in flags else platform.machine()
    widest += " and amx" if uses_tiles() else ""
    return "avx2" if os.environ.get("ATEN_CPU_CAPABILITY", "").lower() == "avx2" and "avx2" in flags else widest


def _processor() -> str:
    return cpuinfo("model name") or platform.processor() or "unknown processor"


def environment() -> dict[str, Any]:
    """Versions and machine, for env.json."""
    packages = ("torch", "numpy", "safetensors", "cyclopts", "rich")
    found = {name: _version(name) for name in packages}
    return {
        "selfnorm": __version__,
        "python": platform.python_version(),
        "machine": machine(),
        "date": today(),
        **found,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"

"""The fault library (faults.c) built and spoken to: count, kill before, tear or refuse the n-th change of the disk."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

COUNT, KILL, TORN, FAIL = range(4)
SOURCE = Path(__file__).with_name("faults.c")


def build(folder: Path) -> Path | None:
    """Compile the library; None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or os.name != "posix":
        return None
    library = folder / "faults.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


@dataclass(frozen=True)
class Fault:
    """What happens at the n-th change below a folder, counted from 1. COUNT only counts."""

    folder: Path
    at: int = -1
    mode: int = COUNT
    errno: int = 0

    def start(self) -> None:
        ctypes.CDLL(None).faults_set(str(self.folder).encode(), ctypes.c_long(self.at), self.mode, self.errno)

    @staticmethod
    def stop() -> int:
        """End it; returns how many changes there were."""
        library = ctypes.CDLL(None)
        library.faults_seen.restype = ctypes.c_long
        seen = int(library.faults_seen())
        library.faults_set(b"", ctypes.c_long(-1), COUNT, 0)
        return seen

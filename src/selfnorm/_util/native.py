"""C code of ours: compiled once on the user's machine, kept in the cache folder."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfnorm._util.disk import storage_errors
from selfnorm._util.errors import UserError
from selfnorm._util.files import cache_folder

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger("selfnorm")
FLAGS = ["-O3", "-shared", "-fPIC"]


def compile_library(source: Path, *flags: str, wished: Sequence[tuple[str, ...]] = ()) -> ctypes.CDLL | None:
    """The shared library of a C file, or None where there is no compiler (CC, else cc), it fails, or SELFNORM_NATIVE is 0.

    Flags that are only wished, such as -fopenmp, are tried first, one group after another; the last try is without them.

    Its name in the cache holds the digest of compiler, flags and all C code beside the file, so that another version never
    meets an old library. A library that cannot be loaded is compiled again.
    """
    if os.environ.get("SELFNORM_NATIVE") == "0":
        return None
    command = shlex.split(os.environ.get("CC", "cc"))
    compiler = shutil.which(command[0]) if command else None
    if compiler is None:
        log.info("There is no C compiler %s; torch's own operations are used.", command[0] if command else "")
        return None
    failed: Exception | None = None
    for more in (*wished, ()):
        try:
            library = _library(source, compiler, [compiler, *command[1:], *FLAGS, *flags, *more])
        except (OSError, UserError, subprocess.CalledProcessError) as error:
            failed = error
        else:
            if failed:
                log.info("%s was compiled without %s.", source.name, " ".join(f for f in wished[0] if f not in more))
            return library
    log.info("%s could not be compiled with %s (%s); torch's own operations are used.", source.name, compiler, failed)
    return None


def _library(source: Path, compiler: str, command: list[str]) -> ctypes.CDLL:
    library = cache_folder() / "native" / f"{source.stem}-{_digest(source, compiler, command)}.so"
    if library.exists():
        with suppress(OSError):
            return ctypes.CDLL(str(library))
    _compile(source, command, library)
    return ctypes.CDLL(str(library))


def call(library: ctypes.CDLL, name: str, *arguments: Tensor | int | None) -> None:
    """Call a function of ours: whole numbers are passed as long, contiguous tensors by address, None as NULL.

    MemoryError is raised where the function returns 0.
    """
    if not getattr(library, name)(*map(_as_c, arguments)):
        raise MemoryError(f"{name}: out of memory")


def _as_c(value: Tensor | int | None) -> Any:
    if value is None or isinstance(value, int):
        return value if value is None else ctypes.c_long(value)
    assert value.device.type == "cpu" and value.is_contiguous()
    return ctypes.c_void_p(value.data_ptr())


def _digest(source: Path, compiler: str, command: list[str]) -> str:
    found = Path(compiler).stat()
    parts = [path.read_bytes() for path in sorted(source.parent.glob("*.[ch]"))]
    parts += ["\0".join([*command, str(found.st_size), str(found.st_mtime_ns)]).encode()]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def _compile(source: Path, command: list[str], library: Path) -> None:
    """In a folder of its own: other processes, also of other machines that share the cache, may do the same now."""
    with storage_errors(library):
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            made = Path(folder) / library.name
            subprocess.run([*command, "-o", str(made), str(source), "-lm"], check=True, capture_output=True)
            made.replace(library)

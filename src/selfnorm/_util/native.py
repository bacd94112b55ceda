"""C code of ours: compiled once on the user's machine, kept in the cache folder."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import shutil
import subprocess
from pathlib import Path

from selfnorm._util.errors import UserError
from selfnorm._util.files import atomic, cache_folder

log = logging.getLogger("selfnorm")
FLAGS = ["-O3", "-shared", "-fPIC"]


def compile_library(source: Path, *flags: str) -> ctypes.CDLL | None:
    """The shared library of a C file, or None where there is no compiler (CC, else cc) or it fails.

    Its name in the cache holds the digest of compiler, flags and all C code beside the file, so that another version never
    meets an old library.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return None
    text = b"".join(path.read_bytes() for path in sorted(source.parent.glob("*.[ch]")))
    digest = hashlib.sha256(text + "\0".join([compiler, *FLAGS, *flags]).encode()).hexdigest()[:16]
    library = cache_folder() / "native" / f"{source.stem}-{digest}.so"
    try:
        if not library.exists():
            with atomic(library) as temporary:
                subprocess.run(
                    [compiler, *FLAGS, *flags, "-o", str(temporary), str(source), "-lm"],
                    check=True,
                    capture_output=True,
                )
        return ctypes.CDLL(str(library))
    except (OSError, UserError, subprocess.CalledProcessError) as error:
        log.info("%s could not be compiled with %s (%s); torch's own products are used.", source.name, compiler, error)
        return None

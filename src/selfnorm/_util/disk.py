"""A disk that is full or may not be written, as one sentence: the file, what it needs, what is free."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is larger than is allowed here",
    errno.EROFS: "the disk is read-only",
}
CODE = re.compile(r"\(os error (\d+)\)|code: (\d+)")  # how Rust's libraries write an errno into their message
SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")  # numpy's only word for a full disk


class StorageError(OSError):
    """A file could not be written for want of space or permission of the disk. Old files stay as they were."""


@contextmanager
def storage_errors(path: Path, needed: int = 0) -> Iterator[None]:
    """Whatever a library says when the disk is full, say which file could not be written and what it needs."""
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        code = storage_code(error)
        if code is None:
            raise
        raise StorageError(code, storage_sentence(code, path, needed)) from error


def storage_code(error: Exception) -> int | None:
    """The errno if this is a full or read-only disk, however a library reports it."""
    if isinstance(error, OSError) and error.errno in REASONS:
        return error.errno
    match = CODE.search(str(error))
    if match and int(match[1] or match[2]) in REASONS:
        return int(match[1] or match[2])
    return errno.ENOSPC if isinstance(error, OSError) and SHORT_WRITE.search(str(error)) else None


def storage_sentence(code: int, path: Path | None, needed: int = 0) -> str:
    """One sentence; without a path it was the output or a temporary file, and nobody can say which."""
    if path is None:
        return f"the output or a temporary file could not be written: {REASONS[code]}. Make room, then run it again."
    room = [f"it needs {_megabytes(needed)}"] if needed else []
    free = _free(path)
    room += [f"{_megabytes(free)} are free there"] if free is not None and code != errno.EROFS else []
    more = f" ({', '.join(room)})" if room else ""
    return (
        f"{path} could not be written: {REASONS[code]}{more}. Old files are as they were. Make room, then run it again."
    )


def _free(path: Path) -> int | None:
    folder = next((p for p in (path, *path.parents) if p.is_dir()), None)
    try:
        return None if folder is None else shutil.disk_usage(folder).free
    except OSError:
        return None


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size:,} bytes"

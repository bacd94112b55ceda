"""Files are written whole or not at all: into a neighbour first, then renamed over the old one."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selfnorm.errors import UserError

LOCK = ".lock"
UMASK = os.umask(0o022)  # it can only be asked by setting it
os.umask(UMASK)


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it into place if the block ends well, else remove it."""
    if not path.name or path.is_dir():
        raise UserError(f"{path} is a folder. Name a file in it.")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        with temporary.open("rb+") as handle:
            os.fsync(handle.fileno())
        temporary.chmod(0o666 & ~UMASK)  # libraries that write for us may have made it ours alone
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One trainer at a time: the lock goes with the process, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{folder} is being trained by another process. Wait for it, or choose another folder."
            ) from None
        yield


def is_locked(folder: Path) -> bool:
    """Is another process training there just now?"""
    if not (folder / LOCK).exists():
        return False
    with (folder / LOCK).open("rb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def write_text(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_text(path: Path) -> str:
    """The text of a file a user named; every way it can fail is a sentence."""
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors put a mark before the text
    except FileNotFoundError:
        raise UserError(f"{path} does not exist. Check the path.") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder, but a file was expected.") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 (byte {error.start}: 0x{error.object[error.start]:02x}). "
            "Convert it first, for example with: iconv -f latin1 -t utf-8"
        ) from None


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise UserError(f"{path} line {error.lineno} is not JSON: {error.msg}.") from None


def cache_folder() -> Path:
    """Where prepared texts live: SELFNORM_CACHE, or selfnorm under the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("SELFNORM_CACHE") or Path(base) / "selfnorm")

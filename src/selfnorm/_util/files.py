"""Files are written whole or not at all: into a temporary file first, then renamed over the old one."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from selfnorm._util.disk import storage_errors
from selfnorm._util.errors import Busy, UserError

NUMBERS = re.compile(r"\[\s*-?[\d.][-+.\deE,\s]*\]")  # a list of numbers as json.dumps indents it
LOCK = ".lock"
BUSY = "is being trained by another process"
PATIENCE = 2.0  # seconds a trainer waits: whoever only asks whether a folder is locked holds it for a moment
UMASK = os.umask(0o022)  # it can only be asked by setting it
os.umask(UMASK)


@contextmanager
def atomic(path: Path, needed: int = 0) -> Iterator[Path]:
    """Yield a temporary path next to `path`; rename it into place if the block ends well, else remove it.

    A full disk is a StorageError that names the file, and the bytes it needs where they are known.
    """
    require_file_or_nothing(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with storage_errors(path, needed):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            with temporary.open("rb+") as handle:
                os.fsync(handle.fileno())
            temporary.chmod(0o666 & ~UMASK)  # libraries that write for us may have made it ours alone
            temporary.replace(path)
    finally:
        with suppress(OSError):  # it was never made on a disk that may not be written
            temporary.unlink(missing_ok=True)


def require_file_or_nothing(path: Path) -> None:
    """Refuse what a file cannot replace: a folder, a device, a pipe."""
    if not path.name or path.is_dir():
        raise UserError(f"{path} is a folder. Name a file in it.")
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a device or a pipe, which a file cannot replace. Name a file.")


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that killed processes left in a folder; those of running processes stay."""
    for path in folder.glob(".*.part"):
        process = path.name.split(".")[-2]
        if process.isdigit() and not _runs(int(process)):
            remove(path)


def remove(path: Path) -> None:
    """Remove a file or a folder of ours; a link is removed itself, never what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One trainer at a time: the operating system releases the lock when the process ends, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with holding(folder / LOCK, PATIENCE, f"{folder} {BUSY}. Wait for it"):
        yield


def is_locked(folder: Path) -> bool:
    """Is another process training in this folder?"""
    if not (folder / LOCK).exists():
        return False
    try:
        with holding(folder / LOCK, 0, ""):
            return False
    except Busy:
        return True


@contextmanager
def holding(path: Path, seconds: float, busy: str) -> Iterator[None]:
    """Hold a lock file, waiting at most so many seconds (-1: as long as it takes). A symbolic link is refused."""
    lock = FileLock(path, timeout=seconds)
    try:
        lock.acquire()
    except Timeout:
        raise Busy(f"{busy}, or choose another folder.") from None
    except OSError as error:
        if path.is_symlink():
            raise UserError(f"{path} is a symbolic link, which a lock never is. Remove it.") from error
        raise
    try:
        yield
    finally:
        lock.release()


def write_text(path: Path, text: str) -> None:
    with atomic(path, len(text)) as temporary:
        temporary.write_text(text, encoding="utf-8")


def json_text(value: Any) -> str:
    """Indented, but for lists of numbers, which take one line each."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return NUMBERS.sub(lambda found: " ".join(found.group().split()), text) + "\n"


def write_json(path: Path, value: Any) -> None:
    write_text(path, json_text(value))


def read_text(path: Path) -> str:
    """The text of a file a user named; every way it can fail is a sentence."""
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors put a mark before the text
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path} does not exist. Check the path.") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder, but a file was expected.") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 (byte {error.start}: 0x{error.object[error.start]:02x}). "
            "Convert it first, for example with: iconv -f latin1 -t utf-8"
        ) from None


def read_json(path: Path) -> Any:
    return parse_json(read_text(path), str(path))


def parse_json(text: str, where: str) -> Any:
    """JSON from anybody: whatever is wrong with it, the error is a sentence."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{where} line {error.lineno} is not JSON: {error.msg}.") from None
    except ValueError:  # Python's own limit
        raise UserError(f"{where} holds a number with thousands of digits. A number of ours is short.") from None
    except RecursionError:
        raise UserError(f"{where} is nested too deeply to be one of ours.") from None


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """TOML from anybody: whatever is wrong with it, the error is a sentence."""
    try:
        return tomllib.loads(text)
    except ValueError as error:  # tomllib's own, and Python's of a number with thousands of digits
        raise UserError(f"{where} is not valid TOML: {error}.") from None
    except RecursionError:
        raise UserError(f"{where} is nested too deeply to be one of ours.") from None


def cache_folder() -> Path:
    """Where prepared texts live: SELFNORM_CACHE, or selfnorm under the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("SELFNORM_CACHE") or Path(base) / "selfnorm")

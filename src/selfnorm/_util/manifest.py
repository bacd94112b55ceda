"""The manifest of a run folder: the sha256 of every file it was written with, checked when a file is read.

    {"files": {name: sha256}, "moves": {name: staged file}, "gone": [names], "before": {name: sha256}, "sha256": of all this}

`moves` and `gone` are a change that was decided but perhaps not finished (_util/change.py); `before` says which files it
replaces and removes, so that a manifest of someone else can never touch a file of the user. Hashing a large file is
remembered in the user's cache by size, times and inode, so that the next opening reads it once and not twice.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from selfnorm._util.errors import UserError
from selfnorm._util.files import cache_folder, read_json, write_json

NAME = "manifest.json"
LARGE = 1 << 18  # bytes from which a hash is worth remembering
SETTLED = 100_000_000  # ns a file must be old before its times can tell a later change from this state
log = logging.getLogger("selfnorm")
_TRUSTED: set[Path] = set()
_ALL: ContextVar[bool] = ContextVar("trust", default=False)
_SAID: set[str] = set()


class Damaged(UserError):
    """A file is not the one that was written: damaged, edited, or of another run."""


@dataclass(frozen=True)
class Manifest:
    files: dict[str, str] = field(default_factory=dict)
    moves: dict[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    before: dict[str, str] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Was a change decided that may not be finished?"""
        return bool(self.moves or self.gone)


@contextmanager
def trusting(everything: bool) -> Iterator[None]:
    """Inside this block the files of every run are taken as they are, if `everything`."""
    before = _ALL.set(_ALL.get() or everything)
    try:
        yield
    finally:
        _ALL.reset(before)


def trust(folder: Path | str) -> None:
    """Take the files of a folder as they are for the rest of this process; what differs is said, not refused."""
    _TRUSTED.add(Path(folder).resolve())


def trusted(folder: Path) -> bool:
    place = folder.resolve()
    return _ALL.get() or any(p in _TRUSTED for p in (place, *place.parents))


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder, or None where an earlier version wrote none."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        table = read_json(path)
        found = Manifest(table["files"], table["moves"], tuple(table["gone"]), table["before"])
        names = [*found.files, *found.moves, *found.gone]
        whole = table["sha256"] == _digest_of(found) and all(_plain(name) for name in names)
        whole = whole and all(re.fullmatch(rf"\.{re.escape(n)}\.\d+\.new", staged) for n, staged in found.moves.items())
    except (UserError, LookupError, TypeError, AttributeError, ValueError):
        whole = False
    if whole:
        return found
    if trusted(folder):
        _say(f"{path} is damaged and was not used.")
        return None
    raise Damaged(f"{path} is damaged: it does not agree with itself. Copy the run again, or go on with --trust.")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_json(folder / NAME, {**asdict(manifest), "sha256": _digest_of(manifest)})


def _digest_of(manifest: Manifest) -> str:
    return hashlib.sha256(json.dumps(asdict(manifest), sort_keys=True).encode()).hexdigest()


def _plain(name: Any) -> bool:
    """A name in the folder itself: a manifest of someone else must not reach outside."""
    return isinstance(name, str) and Path(name).name == name and name not in ("", ".", "..") and "\0" not in name


def refuse_damaged(folder: Path, name: str, manifest: Manifest) -> None:
    """Raise Damaged if a file is not the one its manifest lists."""
    problem = problem_of(folder, name, manifest)
    if problem is None:
        return
    sentence = f"{folder / name} {problem}"
    if trusted(folder):
        _say(f"{sentence}. Trusted as it is.")
        return
    raise Damaged(
        f"{sentence}. Copy or make it again; if you changed it on purpose, go on with --trust (in Python: trust=True)."
    )


def problem_of(folder: Path, name: str, manifest: Manifest) -> str | None:
    """What is wrong with a file; None if it is the one that was written, or no such file ever was."""
    path, known = folder / name, manifest.files.get(name)
    if not path.exists():
        return None if known is None else "is missing, but the manifest lists it"
    if path.is_symlink() and folder.resolve() not in path.resolve().parents:
        return "is a symbolic link that leads out of the run folder"
    if not path.is_file():
        return "is not a regular file"
    if known is None:
        return "is not in the manifest: it was put there by something else than selfnorm"
    if digest(path, known) == known:
        return None
    return "is not the file that was written: its sha256 differs from the manifest, so it was damaged or edited"


def digest(path: Path, expected: str = "") -> str:
    """The sha256 of a file. A large one that was found as `expected` before, and has not been touched since, is not read."""
    stat = path.stat()
    if stat.st_size < LARGE:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    now = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
    memory, key = _memory(path.parent), path.name
    if expected and memory.get(key) == [*now, expected]:
        return expected
    with path.open("rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
    if time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns) > SETTLED:
        _remember(path.parent, {**memory, key: [*now, found]})
    return found


def note_once(folder: Path, sentence: str) -> None:
    """Say something about a folder once, not at every opening."""
    memory = _memory(folder)
    if memory.get("note") != sentence:
        log.info("%s", sentence)
        _remember(folder, {**memory, "note": sentence})


def passed(path: Path, sha256: str) -> bool:
    """Has this file, with this content, been tried before and done no harm?"""
    return sha256 in (_memory(path.parent).get("passed") or [])


def note_passed(path: Path, sha256: str) -> None:
    memory = _memory(path.parent)
    _remember(path.parent, {**memory, "passed": [*(memory.get("passed") or [])[-99:], sha256]})


def _say(sentence: str) -> None:
    if sentence not in _SAID:
        _SAID.add(sentence)
        log.warning("%s", sentence)


def _memory_file(folder: Path) -> Path:
    return cache_folder() / "checked" / f"{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:24]}.json"


def _memory(folder: Path) -> dict[str, Any]:
    try:
        table = json.loads(_memory_file(folder).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def _remember(folder: Path, memory: dict[str, Any]) -> None:
    with suppress(OSError):  # a cache that cannot be written costs time, nothing else
        write_json(_memory_file(folder), memory)

"""Change several files of a run folder together: after a crash at any moment all are new or all are old.

1. New contents are written to staged files, `.NAME.PID.new`.
2. The manifest is replaced: new sha256s, and which staged file is to be moved over which. From here on the change holds.
3. Staged files are moved, removed files unlinked, and the manifest is written without its `moves` and `gone`.

Whoever comes next after a crash finishes step 3, or removes staged files that step 2 never named. A lock makes changes
of two processes follow each other, so that what one reads inside a change is what it replaces.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selfnorm._util.errors import UserError
from selfnorm._util.files import atomic, holding, json_text, remove
from selfnorm._util.manifest import (
    NAME,
    Damaged,
    Manifest,
    digest,
    read_manifest,
    refuse_damaged,
    trusted,
    write_manifest,
)

LOCK = ".manifest.lock"
SECONDS = 600.0  # to wait for another process's change: it only writes files
CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class Change:
    """What is going to be replaced and removed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.staged, self.gone = folder, dict[str, Path](), list[str]()

    @contextmanager
    def file(self, name: str, needed: int = 0) -> Iterator[Path]:
        """Yield a path to write the new content of a file to."""
        staged = self.folder / f".{name}.{os.getpid()}.new"
        with atomic(staged, needed) as temporary:
            yield temporary
        self.staged[name] = staged

    def text(self, name: str, text: str) -> None:
        with self.file(name, len(text)) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def json(self, name: str, value: Any) -> None:
        self.text(name, json_text(value))

    def remove(self, names: Iterable[str]) -> list[str]:
        """Remove these files, those that exist; returns their names."""
        found = [name for name in names if (self.folder / name).exists()]
        self.gone += found
        return found


@contextmanager
def change(folder: Path, known: Callable[[], Iterable[str]] = tuple) -> Iterator[Change]:
    """A change to a folder, made when the block ends well. `known` names what a first manifest lists besides the new files."""
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        manifest = _finish(folder) or Manifest()
        files = (
            dict(manifest.files)
            if manifest.files and not trusted(folder)
            else _listed(folder, {*manifest.files, *known()}, manifest.files)
        )
        _remove_staged(folder)
        new = Change(folder)
        try:
            yield new
            if new.staged or new.gone:
                _make(folder, files, new)
        finally:
            for path in new.staged.values():
                path.unlink(missing_ok=True)


def _make(folder: Path, files: dict[str, str], new: Change) -> None:
    known, files = files, {name: sha for name, sha in files.items() if name not in new.gone}
    files |= {name: digest(path) for name, path in new.staged.items()}
    moves = {name: path.name for name, path in new.staged.items()}
    gone = tuple(name for name in new.gone if name not in moves)
    before = _listed(folder, {*moves, *gone}, known)
    write_manifest(folder, Manifest(files, moves, gone, before))
    new.staged.clear()  # they belong to the manifest now
    _move(folder, Manifest(files, moves, gone))


def _move(folder: Path, manifest: Manifest) -> Manifest:
    for name, staged in manifest.moves.items():
        if (folder / staged).exists():
            (folder / staged).replace(folder / name)
    for name in manifest.gone:
        (folder / name).unlink(missing_ok=True)
    done = Manifest(manifest.files)
    write_manifest(folder, done)
    return done


def _finish(folder: Path) -> Manifest | None:
    """Finish a change that a killed process had decided; the caller holds the lock."""
    manifest = read_manifest(folder)
    if manifest is None or not manifest.open:
        return manifest
    waiting = [name for name, staged in manifest.moves.items() if (folder / staged).exists()]
    for name in (*waiting, *manifest.gone):
        if (folder / name).exists() and digest(folder / name) != manifest.before.get(name):
            raise Damaged(
                f"{folder / name} would be replaced by a change that was interrupted, but it is not the file that was there "
                "then. Move it away."
            )
    return _move(folder, manifest)


def _listed(folder: Path, names: Iterable[str], known: dict[str, str]) -> dict[str, str]:
    found = sorted(name for name in names if (folder / name).is_file())
    return {name: digest(folder / name, known.get(name, "")) for name in found}


def _remove_staged(folder: Path) -> None:
    """Nobody else is inside a change, and no manifest names them: these are leftovers of a killed process."""
    for form in (".*.new", "..*.new.*.part", f".{NAME}.*.part"):
        for path in folder.glob(form):
            remove(path)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with holding(folder / LOCK, SECONDS, f"{folder} is being changed by another process. Wait for it"):
        yield


def settled(folder: Path) -> Manifest | None:
    """The manifest after any change that was decided has been finished; None for folders of earlier versions."""
    manifest = read_manifest(folder)
    if manifest is None or not manifest.open:
        return manifest
    try:
        with _alone(folder):
            return _finish(folder)
    except OSError as error:
        if error.errno not in CLOSED:
            raise
        raise UserError(
            f"A command that changed {folder} was killed before its end, and the folder cannot be written now. "
            "Open it once where it can: that completes it."
        ) from None


def checked(folder: Path, name: str) -> Path:
    """The path of a file of a run, after comparing it with the manifest; raises Damaged with the file's name."""
    while True:
        manifest = settled(folder)
        if manifest is None:
            return folder / name
        try:
            refuse_damaged(folder, name, manifest)
        except UserError:
            if read_manifest(folder) != manifest:
                continue  # it was replaced while it was read
            raise
        return folder / name


def checked_if_listed(path: Path) -> Path:
    """The same for a result, which a user may remove or add: only one that is there and listed is compared."""
    manifest = settled(path.parent) if path.exists() else None
    return checked(path.parent, path.name) if manifest is not None and path.name in manifest.files else path

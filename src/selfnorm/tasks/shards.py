"""A corpus in shards: planned once, scored in any order by any number of workers, verified at the end.

manifest.json      what is computed from what, and the shards: bytes and lines of the input, lines and sha256 of the output
part-00003.txt     the output of a shard, written whole or not at all; parts in the order of their names are the whole output
part-00003.json    its receipt, written after it

A shard whose receipt agrees with its part is never computed again, so a stopped job goes on where it was. Shards end where
the batches of a single process end, so that each sentence is computed with the same neighbours: the parts are bit for bit
what one process prints, given the same processor and number of threads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from selfnorm._util.errors import UserError
from selfnorm._util.files import atomic, read_json, write_json
from selfnorm.scoring.scorer import AT_ONCE

BATCH = AT_ONCE  # sentences that `Scorer.stream` holds at a time: shards of `score` are multiples of it
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Shard:
    """Lines of the input, by number and by place in the file."""

    number: int
    start: int  # bytes
    stop: int
    first: int  # the number of its first line, from 1
    lines: int

    @property
    def name(self) -> str:
        return f"part-{self.number:05d}.txt"


@dataclass(frozen=True)
class Job:
    """What is computed (`what` and its settings), from which file, in which shards."""

    what: str
    settings: dict[str, Any]
    source: str
    size: int
    sha256: str
    shards: tuple[Shard, ...]

    def table(self) -> dict[str, Any]:
        return asdict(self)


def read_job(folder: Path) -> Job:
    table = read_json(folder / MANIFEST)
    shards = tuple(Shard(**row) for row in table["shards"])
    return Job(shards=shards, **{key: table[key] for key in ("what", "settings", "source", "size", "sha256")})


def plan(what: str, settings: dict[str, Any], source: Path, ends: Callable[[Iterator[bytes]], Iterator[int]]) -> Job:
    """Read the input once: its shards, and the sha256 that says later whether it is still the same.

    `ends` is given the lines and yields how many each shard has.
    """
    if not source.is_file():
        raise UserError(f"{source} does not exist or is not a file. Several workers read it: stdin cannot be given.")
    digest, size, shards = hashlib.sha256(), 0, list[Shard]()

    def lines() -> Iterator[bytes]:
        nonlocal size
        with source.open("rb") as handle:
            for line in handle:
                digest.update(line)
                size += len(line)
                yield line

    start, first = 0, 1
    for count in ends(lines()):
        shards.append(Shard(len(shards), start, size, first, count))
        start, first = size, first + count
    return Job(what, settings, str(source.resolve()), size, digest.hexdigest(), tuple(shards))


def every(count: int) -> Callable[[Iterator[bytes]], Iterator[int]]:
    """Shards of so many lines, made a multiple of BATCH."""
    most = max(1, -(-count // BATCH)) * BATCH

    def ends(lines: Iterator[bytes]) -> Iterator[int]:
        have = 0
        for _ in lines:
            have += 1
            if have == most:
                yield have
                have = 0
        if have:
            yield have

    return ends


def open_job(folder: Path, job: Job) -> list[Shard]:
    """Write the plan, or find the same one from before; returns the shards that are not done."""
    path = folder / MANIFEST
    if path.exists():
        there, here = (json.loads(json.dumps(one.table())) for one in (read_job(folder), job))
        wrong = [key for key in here if there[key] != here[key]]
        if wrong:
            raise UserError(f"{folder} holds another job: its {wrong[0]} differs from this one's. Name another folder.")
        return [shard for shard in job.shards if not is_done(folder, shard)]
    if folder.exists() and any(not p.name.startswith(".") for p in folder.iterdir()):
        raise UserError(f"{folder} is not empty and holds no job. Name a new folder.")
    write_json(path, {**job.table(), "complete": False})
    return list(job.shards)


def receipt_of(folder: Path, shard: Shard) -> Path:
    return folder / shard.name.replace(".txt", ".json")


def is_done(folder: Path, shard: Shard) -> bool:
    """Is there a part whose receipt agrees with it? Both are read: a damaged part is computed again."""
    part, receipt = folder / shard.name, receipt_of(folder, shard)
    return part.exists() and receipt.exists() and read_json(receipt) == _facts(part, shard)


def _facts(part: Path, shard: Shard) -> dict[str, Any]:
    with part.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    with part.open("rb") as handle:
        written = sum(1 for _ in handle)
    return {"number": shard.number, "lines_read": shard.lines, "lines_written": written, "sha256": digest}


def lines_of_shard(job: Job, shard: Shard) -> Iterator[bytes]:
    """The shard's lines, one at a time; another file than the one planned for is refused."""
    path = Path(job.source)
    if not path.is_file() or path.stat().st_size != job.size:
        raise UserError(f"{path} is not the file this job was planned for. Do all workers see the same folders?")
    with path.open("rb") as handle:
        handle.seek(shard.start)
        for _ in range(shard.lines):
            yield handle.readline()


def write_shard(folder: Path, shard: Shard, lines: Iterable[str]) -> None:
    """The part, whole or not at all, and then its receipt."""
    with atomic(folder / shard.name) as temporary, temporary.open("w", encoding="utf-8", newline="") as handle:
        handle.writelines(f"{line}\n" for line in lines)
    write_json(receipt_of(folder, shard), _facts(folder / shard.name, shard))


def finish(folder: Path, job: Job, one_line_each: bool) -> dict[str, Any]:
    """Verify that every part is there once and agrees with its receipt, in number and content; then write that into the manifest."""
    receipts = []
    for shard in job.shards:
        if not is_done(folder, shard):
            raise UserError(f"{folder / shard.name} is missing or damaged. Run the same command again.")
        receipts.append(read_json(receipt_of(folder, shard)))
        if one_line_each and receipts[-1]["lines_written"] != shard.lines:
            raise UserError(
                f"{folder / shard.name} has {receipts[-1]['lines_written']} lines for {shard.lines} sentences."
            )
    extra = {p.name for p in folder.glob("part-*.txt")} - {shard.name for shard in job.shards}
    if extra:
        raise UserError(f"{folder} holds {', '.join(sorted(extra)[:3])}, which no shard wrote. Remove it.")
    total = {key: sum(row[key] for row in receipts) for key in ("lines_read", "lines_written")}
    write_json(folder / MANIFEST, {**job.table(), "complete": True, "parts": receipts, **total})
    return total

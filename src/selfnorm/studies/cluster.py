"""A corpus scored or measured by Ray: one task a shard, each worker loads the model once, a worker that dies costs its shard alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from selfnorm._util.console import progress, say
from selfnorm._util.errors import UserError, missing_extra
from selfnorm._util.files import holding, remove_leftovers
from selfnorm.studies.engines import join_ray
from selfnorm.tasks.shards import Job, Shard, finish, open_job

TRIES = 3


def run_job(job: Job, folder: Path, jobs: int, one_line_each: bool) -> tuple[int, int]:
    """Compute what is not done yet of a job, and verify all of it; returns the words seen now, and how many were unknown."""
    folder.mkdir(parents=True, exist_ok=True)
    with holding(folder / ".lock", 2.0, f"{folder} is being written by another process. Wait for it"):
        remove_leftovers(folder)
        waiting = open_job(folder, job)
        if len(waiting) < len(job.shards):
            say(f"{len(job.shards) - len(waiting):,} of {len(job.shards):,} shards are done already")
        words = _on_ray(job.what, waiting, folder.resolve(), jobs) if waiting else (0, 0)
        total = finish(folder, job, one_line_each)
    say(
        f"{folder}: {len(job.shards):,} parts, {total['lines_read']:,} lines read, {total['lines_written']:,} written, verified"
    )
    return words


def _on_ray(what: str, waiting: list[Shard], folder: Path, jobs: int) -> tuple[int, int]:
    try:
        import ray
    except ImportError:
        raise missing_extra("ray", "cluster", "--on ray") from None
    os.environ.setdefault("RAY_worker_niceness", "0")
    with redirect_stdout(sys.stderr):  # Ray reports workers that died to stdout, where results go
        limit = join_ray(ray, jobs)
        try:
            with progress(what, sum(shard.lines for shard in waiting), "lines") as advance:
                return _Queue(ray, waiting, folder, limit, advance).run()
        finally:
            ray.shutdown()


class _Queue:
    """Shards that wait, shards under way, and how often each was sent."""

    def __init__(
        self, ray: Any, waiting: list[Shard], folder: Path, limit: int, advance: Callable[[float], None]
    ) -> None:
        self.ray, self.folder, self.limit, self.advance = ray, str(folder), limit, advance
        self.task = ray.remote(num_cpus=1, max_retries=0)(_work)
        self.waiting, self.tries = list(waiting), dict.fromkeys(waiting, 0)
        self.under_way: dict[Any, Shard] = {}
        self.given = {name: value for name, value in os.environ.items() if name.startswith("SELFNORM_")}

    def run(self) -> tuple[int, int]:
        words = unknown = 0
        while self.waiting or self.under_way:
            while self.waiting and len(self.under_way) < self.limit:
                shard = self.waiting.pop(0)
                self.under_way[self.task.remote(self.folder, shard.number, self.given)] = shard
            ready, _ = self.ray.wait(list(self.under_way), num_returns=1)
            shard = self.under_way.pop(ready[0])
            found = self._result(ready[0], shard)
            if found is not None:
                words, unknown = words + found[0], unknown + found[1]
                self.advance(shard.lines)
        return words, unknown

    def _result(self, task: Any, shard: Shard) -> tuple[int, int] | None:
        """What the shard's task gave; None if its worker died and it was sent again."""
        try:
            words, unknown, message = self.ray.get(task)
        except self.ray.exceptions.RayTaskError:
            raise  # a mistake of ours: its traceback is wanted
        except self.ray.exceptions.RayError as error:
            self.tries[shard] += 1
            if self.tries[shard] >= TRIES:
                raise UserError(f"{shard.name}: its worker died {TRIES} times ({type(error).__name__}).") from None
            say(f"AGAIN   {shard.name}: its worker died ({type(error).__name__}); sent again")
            self.waiting.insert(0, shard)
            return None
        if message:
            raise UserError(message)
        return words, unknown


def _work(folder: str, number: int, given: dict[str, str]) -> tuple[int, int, str]:
    """In a worker: a user's mistake comes back as a sentence."""
    os.environ.update(given)
    from selfnorm.tasks.corpora import work

    try:
        return *work(folder, number), ""
    except UserError as error:
        return 0, 0, str(error)

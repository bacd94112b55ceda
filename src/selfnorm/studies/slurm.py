"""A study on Slurm: each run is a job that submitit writes and sends."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from selfnorm._util.errors import UserError, missing_extra
from selfnorm.studies.engines import given_settings, on_worker, run_on
from selfnorm.studies.plan import Planned


def run_on_slurm(planned: list[Planned], root: Path, jobs: int, settings: list[str]) -> list[str]:
    """Send at most `jobs` jobs at a time; 0 sends all at once, and Slurm queues them.

    `settings`: NAME=VALUE as submitit names them: timeout_min=600, cpus_per_task=4, slurm_partition=long; cluster=local uses
    processes of this machine. A job that is killed or out of time is sent again, at most twice. Scripts and logs are in slurm/.
    """
    try:
        import submitit
    except ImportError:
        raise missing_extra("submitit", "slurm", "--on slurm") from None
    given, root = dict(map(_pair, settings)), root.resolve()
    try:
        executor = submitit.AutoExecutor(folder=root / "slurm" / "%j", cluster=given.pop("cluster", "slurm"))
        executor.update_parameters(name="selfnorm", **{"timeout_min": 24 * 60, **given})
    except (RuntimeError, ValueError, NameError, TypeError) as error:
        raise UserError(f"submitit did not accept this: {str(error).splitlines()[0]}") from None
    engine = _Slurm(executor, submitit.core.utils.UncompletedJobError, jobs or len(planned))
    try:
        return run_on(engine, planned, root)
    finally:
        for job in engine.under_way:
            job.cancel(check=False)


class _Slurm:
    def __init__(self, executor: Any, killed: type[Exception], limit: int) -> None:
        self.executor, self.killed, self.limit, self.given = executor, killed, limit, given_settings()
        self.under_way: list[Any] = []

    def send(self, line: list[str]) -> Any:
        self.under_way.append(self.executor.submit(on_worker, line, self.given))
        return self.under_way[-1]

    def ready(self, tasks: list[Any]) -> Any:
        while True:  # submitit asks Slurm at most once a minute
            for job in tasks:
                if job.done():
                    return job
            time.sleep(0.5)

    def result(self, task: Any) -> tuple[int, str]:
        self.under_way.remove(task)
        try:
            code, last = task.result()
        except self.killed:
            return -1, f"job {task.job_id} was killed, cancelled or out of time (logs: {task.paths.folder})"
        return code, last


def _pair(text: str) -> tuple[str, str | int]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UserError(f"--slurm {text}: NAME=VALUE was expected, such as --slurm slurm_partition=long.")
    return name, int(value) if value.isdigit() else value

"""Engines run what is planned: here, side by side in separate processes, or on a cluster of Ray or Slurm.

All start the same command in the same folder, so their results are the same. A run that was stopped goes on
where its checkpoint is; a run that fails is reported and left for the user, never retried in silence.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live

from selfnorm._util.console import say
from selfnorm._util.errors import UserError, missing_extra
from selfnorm._util.files import BUSY, is_locked
from selfnorm._util.manifest import trusted
from selfnorm.config.toml import write_recipe
from selfnorm.studies.plan import Planned
from selfnorm.studies.progress import progress_of
from selfnorm.studies.view import status_table


def command(run: Planned, root: Path) -> list[str]:
    """The command that trains and measures one run; a user can type it too."""
    recipe = root / "recipes" / f"{run.name}.toml"
    write_recipe(recipe, run.recipe)  # again: the text may have moved, or other threads be wanted
    then = [part for step in run.then for part in ("--then", step)]
    trust = ["--trust"] if trusted(root / run.name) else []
    return [sys.executable, "-m", "selfnorm", "train", str(recipe), "--to", str(root / run.name), *then, *trust]


def run_here(planned: list[Planned], root: Path, jobs: int) -> list[str]:
    """Train up to `jobs` runs at a time; returns the names of those that failed."""
    console, crew = Console(stderr=True), Crew(planned, root, jobs)
    with Live(console=console, refresh_per_second=2, transient=True, auto_refresh=False) as live:
        try:
            while crew.busy():
                crew.start()
                crew.collect()
                if console.is_terminal:
                    live.update(status_table(planned, root, set(crew.running), crew.failed, jobs), refresh=True)
                time.sleep(0.3)
        finally:
            crew.stop()
    return crew.failed


class Crew:
    """Trainings in separate processes.

    A run that another process is training, perhaps one left over from a study that was killed, is waited for.
    """

    def __init__(self, planned: list[Planned], root: Path, jobs: int) -> None:
        self.root, self.jobs = root, jobs
        self.waiting = [run for run in planned if progress_of(run, root).state != "done"]
        self.running: dict[str, tuple[Planned, subprocess.Popen[bytes]]] = {}
        self.failed: list[str] = []
        self.elsewhere: set[str] = set()

    def busy(self) -> bool:
        return bool(self.waiting or self.running)

    def start(self) -> None:
        while len(self.running) < self.jobs and (run := self._next()):
            self.running[run.name] = run, _start(run, self.root)

    def _next(self) -> Planned | None:
        """Take the first run nobody else is training off the list; what others have finished goes too."""
        for run in list(self.waiting):
            if is_locked(self.root / run.name):
                if run.name not in self.elsewhere:
                    say(f"waiting for {run.name}, which another process is training")
                    self.elsewhere.add(run.name)
                continue
            self.waiting.remove(run)
            if progress_of(run, self.root).state != "done":
                return run
            say(f"done    {run.name} (by another process)")
        return None

    def collect(self) -> None:
        for name, (run, process) in list(self.running.items()):
            if process.poll() is None:
                continue
            del self.running[name]
            if process.returncode and self._elsewhere(run, process.returncode):
                self.waiting.append(run)  # another process was quicker; `_next` looks how far it is
            else:
                _report(name, self.root, process.returncode, self.failed)

    def _elsewhere(self, run: Planned, code: int) -> bool:
        """Did our process end because another one was training the run? That one may be done by now, its lock gone."""
        return is_locked(self.root / run.name) or (code == 2 and BUSY in _last_line(run.name, self.root))

    def stop(self) -> None:
        for _, process in self.running.values():
            process.terminate()


def _start(run: Planned, root: Path) -> subprocess.Popen[bytes]:
    log = root / "logs" / f"{run.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as handle:
        return subprocess.Popen(command(run, root), stdout=handle, stderr=handle, stdin=subprocess.DEVNULL)


def _report(name: str, root: Path, code: int, failed: list[str]) -> None:
    if code == 0:
        say(f"done    {name}")
        return
    failed.append(name)
    say(f"FAILED  {name} (exit {code}): {_last_line(name, root) or 'no output'}")


def _last_line(name: str, root: Path) -> str:
    lines = (root / "logs" / f"{name}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


class Engine(Protocol):
    """A cluster that is given commands: how many at a time, how one is sent, which is ready, what it gave."""

    limit: int

    def send(self, line: list[str]) -> Any: ...
    def ready(self, tasks: list[Any]) -> Any: ...
    def result(self, task: Any) -> tuple[int, str]:
        """The exit code and the last line of stderr; a negative code and the reason if the worker died."""


def run_on(engine: Engine, planned: list[Planned], root: Path) -> list[str]:
    """The same commands as here, in workers; returns the names of those that failed. The folder must be one every worker sees.

    A task whose worker dies is said so and sent again, at most twice: it resumes from its checkpoint.
    """
    tries = {run.name: 0 for run in planned if progress_of(run, root).state != "done"}
    by_name = {run.name: run for run in planned}
    tasks: dict[Any, str] = {}
    waiting, failed = list(tries), list[str]()
    while tasks or waiting:
        while waiting and len(tasks) < engine.limit:
            name = waiting.pop(0)
            tasks[engine.send(command(by_name[name], root))] = name
        task = engine.ready(list(tasks))
        name = tasks.pop(task)
        code, last = engine.result(task)
        if code == 0 or (BUSY in last and progress_of(by_name[name], root).state == "done"):
            say(f"done    {name}")
        elif BUSY in last:
            time.sleep(1.0)  # another process trains it: asked again until that is done
            waiting.append(name)
        elif code < 0 and tries[name] < 2:
            tries[name] += 1
            say(f"AGAIN   {name}: {last}; sent again from its checkpoint ({tries[name]} of 2)")
            waiting.insert(0, name)
        else:
            failed.append(name)
            say(f"FAILED  {name} (exit {code}): {last}")
    return failed


def run_on_ray(planned: list[Planned], root: Path, jobs: int) -> list[str]:
    """Ray core tasks of one CPU each, at most `jobs` at a time; 0 takes as many as there are CPUs."""
    try:
        import ray
    except ImportError:
        raise missing_extra("ray", "cluster", "--on ray") from None
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's own 15 starves trainings on a machine that does more
    engine = _Ray(ray, join_ray(ray, jobs))
    try:
        return run_on(engine, planned, root.resolve())  # workers may stand in another folder
    finally:
        ray.shutdown()


class _Ray:
    def __init__(self, ray: Any, limit: int) -> None:
        self.ray, self.limit, self.given = ray, limit, given_settings()
        self.train: Any = ray.remote(num_cpus=1, max_retries=0)(on_worker)

    def send(self, line: list[str]) -> Any:
        return self.train.remote(line, self.given)

    def ready(self, tasks: list[Any]) -> Any:
        return self.ray.wait(tasks, num_returns=1)[0][0]

    def result(self, task: Any) -> tuple[int, str]:
        try:
            code, last = self.ray.get(task)
        except self.ray.exceptions.RayError as error:
            return -1, f"its worker died ({type(error).__name__})"
        return code, last


def given_settings() -> dict[str, str]:
    """The variables of ours that workers need too."""
    return {name: value for name, value in os.environ.items() if name.startswith("SELFNORM_")}


def join_ray(ray: Any, jobs: int, tries: int = 3) -> int:
    """Join or start Ray; on a busy machine it may take longer than Ray itself waits."""
    for left in reversed(range(tries)):
        try:
            return _join(ray, jobs)
        except Exception as error:
            ray.shutdown()
            if not left:
                raise UserError(f"Ray did not start: {str(error).splitlines()[0]}") from None
    return 0


def _join(ray: Any, jobs: int) -> int:
    """The cluster that is there (RAY_ADDRESS, or one started here), else a new local one; returns the number of tasks at a time.

    RAY_ADDRESS=local is always a new one.
    """
    how = {"include_dashboard": False, "log_to_driver": False, "ignore_reinit_error": True}
    address = os.environ.get("RAY_ADDRESS", "auto")
    try:
        if address == "local":
            raise ConnectionError
        ray.init(address=address, log_to_driver=False, ignore_reinit_error=True)
    except ConnectionError:
        ray.init(address="local", num_cpus=jobs or None, **how)
    return jobs or int(ray.cluster_resources().get("CPU", 1))


def on_worker(line: list[str], given: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ, **given})
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]

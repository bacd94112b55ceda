"""Engines: a run that another process finished is done, not failed; asking for a lock never refuses a trainer."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from selfnorm._util.files import BUSY, is_locked, locked
from selfnorm.studies.engines import Crew
from selfnorm.studies.experiment import run_experiment
from selfnorm.studies.plan import Planned

from ..conftest import tiny


def refused(crew: Crew, run: Planned, last: str, code: int) -> None:
    """As if our process had ended with this last line, while another one held the lock and has let go since."""
    log = crew.root / "logs" / f"{run.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"error: {last}\n")
    process = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])
    process.wait()
    crew.running[run.name] = run, process
    crew.collect()


def test_a_run_that_another_process_finished_is_not_reported_as_failed(
    text_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = Planned("one", tiny(text_file), ("valid",))
    crew = Crew([run], tmp_path, jobs=1)
    crew.waiting.clear()
    run_experiment(run.recipe, tmp_path / run.name, run.then)  # the other process
    refused(crew, run, f"{tmp_path / run.name} {BUSY}. Wait for it, or choose another folder.", 2)
    assert crew.failed == [] and crew.busy()
    crew.start()
    assert not crew.busy() and "by another process" in capfd.readouterr().err


def test_a_run_that_fails_is_reported_though_its_log_once_said_busy(text_file: Path, tmp_path: Path) -> None:
    run = Planned("one", tiny(text_file), ("valid",))
    crew = Crew([run], tmp_path, jobs=1)
    crew.waiting.clear()
    refused(crew, run, f"x {BUSY}", -9)
    assert crew.failed == ["one"] and not crew.busy()


def test_asking_whether_a_folder_is_locked_never_refuses_a_trainer(tmp_path: Path) -> None:
    stop, asked = threading.Event(), []

    def ask() -> None:
        while not stop.is_set():
            asked.append(is_locked(tmp_path))

    with locked(tmp_path):
        assert is_locked(tmp_path)
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            with locked(tmp_path):
                pass
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert asked

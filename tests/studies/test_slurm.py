"""The Slurm engine with submitit's local executor: the same numbers as here, also when a job is killed. No Slurm is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from selfnorm.cli import main
from selfnorm.studies.engines import run_here
from selfnorm.studies.plan import read_study

from ..conftest import write_text
from .test_study import STUDY

pytest.importorskip("submitit")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    file = write_text(tmp_path / "text.txt", lines=900)
    (tmp_path / "study.toml").write_text(STUDY.format(file=file).replace("epochs = 2", "epochs = 8"))
    return tmp_path / "study.toml"


def test_a_study_of_slurm_jobs_gives_the_local_numbers_even_if_a_job_is_killed(study: Path, tmp_path: Path) -> None:
    planned, folder = list(read_study(str(study)).planned), tmp_path / "jobs"
    assert run_here(planned, tmp_path / "here", 2) == []
    run = [sys.executable, "-m", "selfnorm", "study", "run", str(study), "--to", str(folder), "--jobs", "1"]
    killed = False
    with subprocess.Popen(
        [*run, "--on", "slurm", "--slurm", "cluster=local"], stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:
            if not killed and list(folder.glob("*/history.jsonl")):
                killed = kill_the_job(str(folder))
            time.sleep(0.05)
        said = process.stderr.read() if process.stderr else ""
    assert process.returncode == 0, said
    assert killed and "AGAIN" in said and "was killed" in said
    for one in planned:
        here, there = (json.loads((tmp_path / p / one.name / "valid.json").read_text()) for p in ("here", "jobs"))
        assert here["perplexity"] == there["perplexity"] and here["sigma_z"] == there["sigma_z"]


def kill_the_job(folder: str) -> bool:
    """SIGKILL the job's own process and its training, as Slurm does."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if folder.encode() in b" ".join(line) and (b"submitit.core._submit" in line or b"train" in line):
            found.append((b"train" in line, int(path.parent.name)))
    for _, process in sorted(found):
        os.kill(process, signal.SIGKILL)
    return bool(found)


def test_settings_that_submitit_does_not_know_and_a_machine_without_slurm_are_refused(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    run = ["study", "run", str(study), "--to", str(tmp_path / "jobs")]
    for more, expected in [
        (["--on", "slurm"], "srun"),
        (["--on", "slurm", "--slurm", "cluster=local", "--slurm", "colour=red"], "colour"),
        (["--on", "slurm", "--slurm", "partition"], "NAME=VALUE"),
        (["--slurm", "slurm_partition=long"], "--on slurm"),
    ]:
        assert main([*run, *more]) == 2
        assert expected in capsys.readouterr().err

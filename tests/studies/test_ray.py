"""The Ray engine on a local Ray with two CPUs: the same numbers as here, also when a worker is killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from selfnorm.studies.engines import run_here
from selfnorm.studies.plan import read_study

from ..conftest import write_text
from .test_study import STUDY

pytest.importorskip("ray")


def test_a_study_on_ray_gives_the_local_numbers_even_if_a_worker_dies(tmp_path: Path) -> None:
    file = write_text(tmp_path / "text.txt", lines=900)
    (tmp_path / "study.toml").write_text(STUDY.format(file=file).replace("epochs = 2", "epochs = 8"))
    planned = list(read_study(str(tmp_path / "study.toml")).planned)
    assert run_here(planned, tmp_path / "here", 2) == []
    command = [
        sys.executable,
        "-m",
        "selfnorm",
        "study",
        "run",
        str(tmp_path / "study.toml"),
        "--to",
        str(tmp_path / "ray"),
        "--on",
        "ray",
        "--jobs",
        "2",
    ]
    killed, own = False, {**os.environ, "RAY_ADDRESS": "local"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=own) as process:
        while process.poll() is None:
            if not killed and list((tmp_path / "ray").glob("*/history.jsonl")):
                killed = _kill_a_trainer(str(tmp_path / "ray"))
            time.sleep(0.05)
        said = process.stderr.read() if process.stderr else ""
    assert process.returncode == 0, said
    assert killed and "AGAIN" in said
    for run in planned:
        one, two = (json.loads((tmp_path / place / run.name / "valid.json").read_text()) for place in ("here", "ray"))
        assert one["perplexity"] == two["perplexity"] and one["sigma_z"] == two["sigma_z"]


def _kill_a_trainer(folder: str) -> bool:
    """SIGKILL one training process of this study, found by its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"train" in line and any(folder.encode() in part for part in line) and b"study" not in line:
            os.kill(int(path.parent.name), signal.SIGKILL)
            return True
    return False

"""Several processes under torchrun: the step of one process with all streams, and a killed process costs nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from selfnorm._util.errors import UserError
from selfnorm.config.toml import write_recipe
from selfnorm.data.windows import Windows
from selfnorm.studies.experiment import run_experiment

from ..conftest import tiny, write_text
from .curves import CASES, curve

ROOT = Path(__file__).parent.parent.parent


def torchrun(processes: int, *command: str, restarts: int = 0) -> list[str]:
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", str(restarts)]
    return [*run, "--nproc-per-node", str(processes), *command]


def finished(command: list[str], **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False, **more)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[float]]]:
    """The curves of all cases by two processes, as each of them saw them."""
    out = tmp_path_factory.mktemp("curves") / "out"
    done = finished(torchrun(2, "-m", "tests.training.curves", str(out)))
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(Path(f"{out}.{rank}").read_text()) for rank in (0, 1)]
    assert [f["size"] for f in found] == [2, 2]
    return [f["curves"] for f in found]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_make_the_steps_of_one_with_the_same_batch(
    case: str, curves: list[dict[str, list[float]]]
) -> None:
    alone = np.array(curve(case))
    first, second = (np.array(one[case]) for one in curves)
    assert len(alone) == 50 and np.array_equal(first, second), "both processes know the same sums"
    assert np.abs(alone - first).max() <= 1e-5 * np.abs(alone).max()
    assert np.allclose(alone, first, rtol=1e-5)


def test_a_killed_process_is_restarted_and_the_model_is_the_identical_one(tmp_path: Path) -> None:
    recipe = tiny(write_text(tmp_path / "tiny.txt", lines=400), name="nce_r")
    recipe = replace(recipe, model=replace(recipe.model, dropout=0.2))
    recipe = replace(recipe, training=replace(recipe.training, epochs=3, checkpoint_minutes=0.0005, device="cpu"))
    write_recipe(tmp_path / "r.toml", recipe)
    command = ["-m", "selfnorm", "train", str(tmp_path / "r.toml"), "--to"]
    assert finished(torchrun(2, *command, str(tmp_path / "whole"))).returncode == 0
    killed = False
    line = torchrun(2, *command, str(tmp_path / "killed"), restarts=2)
    with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            if not killed and (tmp_path / "killed" / "checkpoint.safetensors").exists():
                killed = _kill_rank(1, str(tmp_path / "killed"))
            time.sleep(0.02)
        said = process.stderr.read() if process.stderr else ""
    assert killed and process.returncode == 0, said[-2000:]
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def _kill_rank(rank: int, folder: str) -> bool:
    """SIGKILL the process of this rank that trains in the folder; False if it is not there (yet, or any more)."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line, environment = (path / "cmdline").read_bytes(), (path / "environ").read_bytes()
        except OSError:
            continue
        if folder.encode() in line and f"\0RANK={rank}\0".encode() in b"\0" + environment:
            os.kill(int(path.name), signal.SIGKILL)
            return True
    return False


def test_another_number_of_processes_goes_on_and_says_so(tmp_path: Path) -> None:
    recipe = tiny(write_text(tmp_path / "tiny.txt", lines=400))
    run_experiment(recipe, tmp_path / "run")
    longer = replace(recipe, training=replace(recipe.training, epochs=3))
    write_recipe(tmp_path / "r.toml", longer)
    command = ["-m", "selfnorm", "train", str(tmp_path / "r.toml"), "--to", str(tmp_path / "run")]
    done = finished(torchrun(2, *command))
    assert done.returncode == 0 and "by one process until here" in done.stderr, done.stderr[-2000:]
    history = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in history] == [1, 2, 3]
    assert history[2]["perplexity"] < history[1]["perplexity"] * 1.05


def test_streams_that_cannot_be_divided_are_refused() -> None:
    with pytest.raises(UserError, match="8 streams cannot be divided over 3 processes"):
        Windows(np.arange(1000), 8, 5, rank=0, processes=3)
    parts = [Windows(np.arange(1000), 8, 5, rank=rank, processes=2)[3] for rank in (0, 1)]
    whole = Windows(np.arange(1000), 8, 5)[3]
    assert torch.equal(torch.cat([part.inputs for part in parts]), whole.inputs)
    assert all(torch.equal(part.batch.targets, whole.targets) for part in parts)

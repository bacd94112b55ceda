"""Corpora on a local Ray with two workers: what one process prints, also when a worker or the driver is killed."""

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
from selfnorm.studies.experiment import run_experiment
from selfnorm.tasks.shards import MANIFEST

from ..conftest import tiny, write_text

pytest.importorskip("ray")


@pytest.fixture(autouse=True)
def _own_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another Ray on this machine is neither joined nor killed."""
    monkeypatch.setenv("RAY_ADDRESS", "local")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster")
    os.environ["SELFNORM_CACHE"] = str(folder / "cache")
    run_experiment(tiny(write_text(folder / "tiny.txt", lines=400)), folder / "run")
    write_text(folder / "corpus.txt", lines=20_000, seed=5)
    return folder


def command(base: Path, what: str, source: str, to: str, *more: str) -> list[str]:
    start = [sys.executable, "-m", "selfnorm", what, str(base / "run"), str(base / source)]
    return [*start, "--on", "ray", "--to", str(base / to), "--jobs", "2", *more]


def parts(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("part-*.txt")))


def serial(base: Path, what: str, source: str, *more: str) -> bytes:
    """What one process prints, with one thread, as Ray's workers have."""
    line = [sys.executable, "-m", "selfnorm", what, str(base / "run"), str(base / source), *more]
    return subprocess.run(line, capture_output=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout


def workers(driver: int) -> list[int]:
    """Processes of the driver's Ray that compute a shard, by the title Ray gives them."""
    parents, titled = {}, []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if (path / "cmdline").read_bytes().startswith(b"ray::_work"):
                titled.append(int(path.name))
        except OSError:
            continue

    def is_under(process: int) -> bool:
        return process == driver or (process in parents and is_under(parents[process]))

    return [process for process in titled if is_under(process)]


def kill_one(driver: int) -> bool:
    found = workers(driver)
    if found:
        os.kill(found[0], signal.SIGKILL)
    return bool(found)


def test_scores_are_the_serial_ones_though_a_worker_and_the_driver_are_killed(base: Path) -> None:
    line = command(base, "score", "corpus.txt", "scores", "--shard", "512")
    killed = False
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as driver:
        while driver.poll() is None:
            done = len(list((base / "scores").glob("part-*.json")))
            killed = killed or (done >= 2 and kill_one(driver.pid))
            if killed and done >= 8:
                driver.kill()
            time.sleep(0.02)
        first = driver.stderr.read() if driver.stderr else ""
    kept = {path: path.stat().st_mtime_ns for path in (base / "scores").glob("part-*.txt")}
    assert killed and "AGAIN" in first and 0 < len(kept) < 40
    again = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert again.returncode == 0 and "done already" in again.stderr, again.stderr[-2000:]
    manifest = json.loads((base / "scores" / MANIFEST).read_text())
    assert manifest["complete"] and manifest["lines_read"] == manifest["lines_written"] == 20_000
    assert parts(base / "scores") == serial(base, "score", "corpus.txt")
    assert sum(path.stat().st_mtime_ns == stamp for path, stamp in kept.items()) >= len(kept) - 2, (
        "kept, not made again"
    )


def test_lists_are_rescored_as_by_one_process(base: Path) -> None:
    rows = []
    lines = (base / "corpus.txt").read_text().splitlines()
    for i in range(1500):
        hyps = [{"text": lines[(7 * i + j) % len(lines)], "score": -float(j)} for j in range(8)]
        rows.append(json.dumps({"id": f"u{i}", "hyps": hyps}))
    (base / "lists.jsonl").write_text("\n".join(rows) + "\n")
    for kind in ("1best", "nbest"):
        done = subprocess.run(
            command(base, "rescore", "lists.jsonl", kind, "--shard", "400", "--print", kind), capture_output=True, text=True, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        assert len(list((base / kind).glob("part-*.txt"))) > 1
        assert parts(base / kind) == serial(base, "rescore", "lists.jsonl", "--print", kind)


def test_a_text_is_measured_as_by_one_process_though_a_worker_is_killed(base: Path) -> None:
    """The same parts and the same sums: the numbers of one process to the last bit, with one thread as Ray's workers have."""
    line = command(base, "measure", "corpus.txt", "sums", "--shard", "2048", "--json")
    killed = False
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as driver:
        while driver.poll() is None:
            done = len(list((base / "sums").glob("part-*.json")))
            killed = killed or (done >= 2 and kill_one(driver.pid))
            time.sleep(0.02)
        assert driver.stdout and driver.stderr
        said, found = driver.stderr.read(), json.loads(driver.stdout.read())
    assert driver.returncode == 0 and killed and "AGAIN" in said, said[-2000:]
    here = json.loads(serial(base, "measure", "corpus.txt", "--shard", "2048", "--json"))
    names = ("mu_z", "sigma_z", "perplexity", "u_perplexity", "correlation", "words", "blocks", "signature")
    assert {name: found[name] for name in names} == {name: here[name] for name in names}
    for name, interval in here["intervals"].items():  # resampled by products of the driver, which may have more threads
        assert found["intervals"][name] == pytest.approx(interval, rel=1e-9)
    assert len(list((base / "sums").glob("part-*.txt"))) == 10
    assert json.loads((base / "sums" / "measurement.json").read_text()) == found


def test_a_folder_of_another_job_and_wrong_input_are_refused(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (base / "few.txt").write_text("the cat\n" * 3)
    assert main(["score", str(base / "run"), str(base / "few.txt"), "--on", "ray"]) == 2
    assert "--to" in capsys.readouterr().err
    assert main(["rescore", str(base / "run"), str(base / "few.txt"), "--on", "ray", "--to", str(base / "x")]) == 2
    assert "line 1: expected" in capsys.readouterr().err and not (base / "x").exists()
    folder = base / "other"
    folder.mkdir()
    (folder / "mine.txt").write_text("a file of the user's")
    assert main(["score", str(base / "run"), str(base / "few.txt"), "--on", "ray", "--to", str(folder)]) == 2
    assert "not empty" in capsys.readouterr().err

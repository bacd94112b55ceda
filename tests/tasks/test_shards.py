"""Shards without an engine: planned at the ends of batches, computed once, verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from selfnorm._util.errors import UserError
from selfnorm.cli.cluster import run_settings
from selfnorm.runs.folder import open_run
from selfnorm.studies.experiment import run_experiment
from selfnorm.tasks.corpora import score_line, work
from selfnorm.tasks.shards import BATCH, every, finish, is_done, open_job, plan, read_job

from ..conftest import tiny, write_text


def test_shards_cover_every_line_once_and_end_with_batches(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a b\n" * 1000 + b"\n" + b"no end")
    job = plan("score", {}, path, every(300))
    assert [shard.lines for shard in job.shards] == [512, 490]
    assert job.shards[0].lines % BATCH == 0 and job.shards[-1].stop == path.stat().st_size
    assert [shard.first for shard in job.shards] == [1, 513]


def test_a_job_is_computed_once_in_any_order_and_damage_is_found(text_file: Path, tmp_path: Path) -> None:
    run_experiment(tiny(text_file), tmp_path / "run")
    corpus = write_text(tmp_path / "corpus.txt", lines=700, seed=3)
    run, out = open_run(tmp_path / "run"), tmp_path / "out"
    settings = {"eos": True, "per_word": False, "log10": False, "json": False, "tokenized": False}
    job = plan("score", settings | run_settings(run, False, None, 0.0), corpus, every(256))
    assert [shard.number for shard in open_job(out, job)] == [0, 1, 2]
    for number in (2, 0):
        work(str(out), number)
    assert [shard.number for shard in open_job(out, job)] == [1] and read_job(out) == job
    with pytest.raises(UserError, match="missing or damaged"):
        finish(out, job, one_line_each=True)
    work(str(out), 1)
    assert finish(out, job, one_line_each=True) == {"lines_read": 700, "lines_written": 700}
    lines = corpus.read_text().splitlines()
    expected = [score_line(scores) for scores in run.scorer().stream(line.split() for line in lines)]
    assert "".join((out / shard.name).read_text() for shard in job.shards).splitlines() == expected
    part = out / job.shards[1].name
    part.write_text(part.read_text()[:-8])
    assert not is_done(out, job.shards[1]) and [s.number for s in open_job(out, job)] == [1]
    other = plan("score", settings | run_settings(run, True, None, 0.0), corpus, every(256))
    with pytest.raises(UserError, match="another job"):
        open_job(out, other)

"""Shards without an engine: planned at the ends of batches, computed once, verified."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from selfnorm._util.errors import UserError
from selfnorm.cli import main
from selfnorm.cli.cluster import run_settings
from selfnorm.evaluation.measure import per_word
from selfnorm.runs.folder import open_run
from selfnorm.runs.loading import load_model
from selfnorm.studies.experiment import run_experiment
from selfnorm.tasks import rescoring
from selfnorm.tasks.corpora import at_lists, score_line, work
from selfnorm.tasks.shards import BATCH, every, finish, is_done, open_job, plan, read_job
from selfnorm.tasks.texts import merged_parts, parts_here, parts_in

from ..conftest import tiny, write_text


def test_shards_cover_every_line_once_and_end_with_batches(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a b\n" * (4 * BATCH - 24) + b"\n" + b"no end")
    job = plan("score", {}, path, every(BATCH + 44))
    assert [shard.lines for shard in job.shards] == [2 * BATCH, 2 * BATCH - 22]
    assert job.shards[0].lines % BATCH == 0 and job.shards[-1].stop == path.stat().st_size
    assert [shard.first for shard in job.shards] == [1, 2 * BATCH + 1]


def test_a_job_is_computed_once_in_any_order_and_damage_is_found(text_file: Path, tmp_path: Path) -> None:
    run_experiment(tiny(text_file), tmp_path / "run")
    corpus = write_text(tmp_path / "corpus.txt", lines=2 * BATCH + 188, seed=3)
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
    assert finish(out, job, one_line_each=True) == {"lines_read": 2 * BATCH + 188, "lines_written": 2 * BATCH + 188}
    lines = corpus.read_text().splitlines()
    expected = [score_line(scores) for scores in run.scorer().stream(line.split() for line in lines)]
    assert "".join((out / shard.name).read_text() for shard in job.shards).splitlines() == expected
    part = out / job.shards[1].name
    part.write_text(part.read_text()[:-8])
    assert not is_done(out, job.shards[1]) and [s.number for s in open_job(out, job)] == [1]
    other = plan("score", settings | run_settings(run, True, None, 0.0), corpus, every(256))
    with pytest.raises(UserError, match="another job"):
        open_job(out, other)


def test_a_text_in_parts_has_the_sums_of_its_parts(text_file: Path, tmp_path: Path) -> None:
    """Workers and one process give the same numbers, and those are what `measure` says of the words of all parts."""
    run_experiment(tiny(text_file), tmp_path / "run")
    run, corpus = open_run(tmp_path / "run"), write_text(tmp_path / "corpus.txt", lines=2 * BATCH + 188, seed=3)
    settings = {"tokenized": False, **run_settings(run, True, None, 0.0)}
    job, out = plan("measure", settings, corpus, every(BATCH)), tmp_path / "out"
    open_job(out, job)
    for number in (2, 0, 1):
        work(str(out), number)
    finish(out, job, one_line_each=False)
    there, here = (merged_parts(run, job, parts, 0.0)[0] for parts in (parts_in(out, job), parts_here(run, job)))
    assert replace(there, seconds=0) == replace(here, seconds=0)
    model, vocab, words = load_model(run, calibration="none"), run.vocab, []
    lines = corpus.read_text().splitlines()
    for start in range(0, len(lines), BATCH):
        sentences = lines[start : start + BATCH]
        ids = [vocab.eos, *(i for line in sentences for i in (*vocab.ids(line.split()), vocab.eos))]
        words.append(per_word(model, np.asarray(ids)))
    log_z, nll = (np.concatenate([getattr(part, name) for part in words]) for name in ("log_z", "nll"))
    assert there.words == len(log_z) == sum(len(line.split()) + 1 for line in lines)
    assert np.allclose([there.mu_z, there.sigma_z], [log_z.mean(), log_z.std()], rtol=1e-9, atol=1e-9)
    assert np.isclose(there.perplexity, np.exp(nll.mean()), rtol=1e-12)
    assert (
        len(there.blocks) > 20
        and there.intervals["perplexity"][0] < there.perplexity < there.intervals["perplexity"][1]
    )


def test_wrong_ways_to_measure_a_text_are_refused(
    text_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_experiment(tiny(text_file), tmp_path / "run")
    (tmp_path / "empty").touch()
    text, empty, none = str(text_file), str(tmp_path / "empty"), str(tmp_path / "none")
    for line, said in [
        ([text, "--on", "ray"], "--to"),
        ([text, "--to", "x"], "--on ray"),
        ([text, "--shard", "0"], "--shard 0"),
        ([text, "--examples"], "for a split"),
        ([empty], "is empty"),
        ([none], "does not exist"),
        (["--on", "ray"], "text file"),
    ]:
        assert main(["measure", str(tmp_path / "run"), *line]) == 2, line
        assert said in capsys.readouterr().err


def test_lists_in_shards_are_rescored_as_in_one_piece(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shards end where lists that share a trie end, so that every score is computed with the same neighbours."""
    run_experiment(tiny(text_file), tmp_path / "run")
    lines, lists = text_file.read_text().splitlines(), tmp_path / "lists.jsonl"
    rows = [
        {"id": f"u{i}", "hyps": [{"text": lines[(7 * i + j) % len(lines)], "score": -float(j)} for j in range(8)]}
        for i in range(90)
    ]
    lists.write_text("\n".join(map(json.dumps, rows[:40])) + "\n\n" + "\n".join(map(json.dumps, rows[40:])) + "\n")
    monkeypatch.setattr(rescoring.chunks, "__defaults__", (100,))  # a trie for a dozen lists
    settings = {"lm_weight": 0.5, "word_penalty": 0.1, "old_lm_weight": 0.0, "print": "nbest", "tokenized": False}
    settings |= {"exact": "1best", "confidence": 0.999}
    settings |= run_settings(open_run(tmp_path / "run"), True, None, 0.0)
    job = plan("rescore", settings, lists, at_lists(30))
    assert len(job.shards) > 1 and sum(shard.lines for shard in job.shards) == 91
    open_job(tmp_path / "out", job)
    for shard in reversed(job.shards):
        work(str(tmp_path / "out"), shard.number)
    finish(tmp_path / "out", job, one_line_each=False)
    capsys.readouterr()
    weights = ["--lm-weight", "0.5", "--word-penalty", "0.1"]
    assert main(["rescore", str(tmp_path / "run"), str(lists), "--print", "nbest", "--exact", "1best", *weights]) == 0
    assert "".join((tmp_path / "out" / s.name).read_text() for s in job.shards) == capsys.readouterr().out


@pytest.mark.parametrize(
    "line, said", [("{}", "expected"), ('{"id": "a", "hyps": [{"text": "x", "score": 1}]}', "before")]
)
def test_lists_that_cannot_be_read_are_refused_before_anything_starts(line: str, said: str, tmp_path: Path) -> None:
    good = '{"id": "a", "hyps": [{"text": "x", "score": 1}]}\n'
    (tmp_path / "lists").write_text(good + line + "\n")
    with pytest.raises(UserError, match=f"line 2.*{said}"):
        plan("rescore", {}, tmp_path / "lists", at_lists(10))

"""The rescorer: one list after another, the same result in several processes and however the lists arrive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import selfnorm as sn
from selfnorm.cli import main
from selfnorm.tasks.nbest.base import NBest

from ..conftest import write_text
from .test_exact import SMALL, lists


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> sn.Run:
    place = tmp_path_factory.mktemp("rescorer")
    return sn.train(place / "nce", text=write_text(place / "t.txt"), criterion="nce", progress=False, **SMALL)


def plain(asked: list[NBest]) -> list[list[tuple[tuple[str, ...], float]]]:
    return [[(h.words, h.score) for h in n.hypotheses] for n in asked]


def test_one_list_at_a_time_gives_the_exact_1_best(run: sn.Run) -> None:
    asked = plain(lists(80, 8))
    rescorer = sn.Rescorer(run.folder, lm_weight=0.7, confidence=0.9999)
    single = [rescorer.rescore([one])[0].best for one in asked]
    exact = [r.best for r in sn.Rescorer(run.folder, lm_weight=0.7, exact="all").rescore(asked)]
    assert single == exact and rescorer.report.lists == 80
    assert 0 < rescorer.report.computed < rescorer.report.contexts


def test_several_processes_write_what_one_writes(run: sn.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import selfnorm.tasks.rescoring as work

    asked = lists(240, 12)
    monkeypatch.setattr(work.chunks, "__defaults__", (300,))
    one, two = sn.Rescorer(run.folder), sn.Rescorer(run.folder)
    alone = [t.rows for _, t in one.stream(asked, tokenized=True)]
    shared = list(two.stream(iter(asked), tokenized=True, workers=2))
    assert [n.name for n, _ in shared] == [n.name for n in asked]
    assert all(np.allclose(a, t.rows, atol=1e-4) for a, (_, t) in zip(alone, shared, strict=True))
    assert one.report.contexts == two.report.contexts and one.report.lists == two.report.lists == 240


def test_lists_are_taken_as_they_come(run: sn.Run) -> None:
    taken = 0

    def coming() -> object:
        nonlocal taken
        for nbest in lists(2000, 4):
            taken += 1
            yield nbest

    stream = sn.Rescorer(run.folder).stream(coming(), tokenized=True)  # type: ignore[arg-type]
    next(stream)
    assert taken <= 1000  # four thousand hypotheses at a time


def test_beam_search_steps_many_states_at_once(run: sn.Run) -> None:
    lm = run.scorer()
    states = [lm.start(), lm.step(lm.start(), "the")[1], lm.nothing()]
    scores, after = lm.scores(states, ["cat", "dog", 3])
    slow = [lm.step(state, word) for state, word in zip(states, ["cat", "dog", 3], strict=True)]
    assert scores.tolist() == pytest.approx([score for score, _ in slow], abs=1e-5)
    again, _ = lm.scores(after, ["a", "a", "a"])
    assert again.tolist() == pytest.approx([lm.step(state, "a")[0] for _, state in slow], abs=1e-5)
    assert lm.scores([], [])[1] == []
    with pytest.raises(sn.UserError, match="a word for each state"):
        lm.scores(states, ["a"])


def test_the_command_streams_tunes_and_reports(run: sn.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"id": f"u {n.name}", "hyps": [{"text": " ".join(h.words), "score": h.score} for h in n.hypotheses], "ref": " ".join(n.hypotheses[0].words)}
        for n in lists(30, 5)
    ]  # fmt: skip
    path = tmp_path / "l.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "ref").write_text("".join(f"u%20{i} {row['ref']}\n" for i, row in enumerate(rows)))
    call = ["rescore", str(run.folder), str(path)]
    assert main([*call, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["lists"] == 30 and found["contexts"] > found["computed"] >= 0 and len(found["wer_interval"]) == 2
    assert sum(row["lists"] for row in found["reliability"]) == 30
    assert main([*call, "--tune", str(tmp_path / "ref"), "--print", "confidence", "--to", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert said.out == "" and "fewer than 200" in said.err and "wer_cross_validated" in said.err
    first = (tmp_path / "out").read_text().splitlines()[0].split()
    assert first[0] == "u%200" and 0 < float(first[1]) <= 1 and ":" in first[2]
    rows[3]["hyps"][1]["score"] = "x"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "out").unlink()
    assert main([*call, "--to", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists() and "hypothesis 2 of u 3" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["scores", "nbest"])
def test_scores_that_are_written_are_the_models(
    run: sn.Run, tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "l").write_text(
        "".join(
            json.dumps({"id": n.name, "hyps": [{"text": " ".join(h.words), "score": h.score} for h in n.hypotheses]})
            + "\n"
            for n in lists(10, 5)
        )
    )
    call = ["rescore", str(run.folder), str(tmp_path / "l"), "--print", what]
    assert main(call) == 0
    default = capsys.readouterr().out
    assert main([*call, "--exact", "all"]) == 0
    assert capsys.readouterr().out == default
    assert main([*call, "--exact", "1best"]) == 0
    said = capsys.readouterr()
    assert "the mean of log Z stands for what was not computed" in said.err and said.out != default


@pytest.mark.parametrize("metric", ["wer", "bleu"])
def test_hypotheses_are_compared_as_references_are(
    run: sn.Run, tmp_path: Path, metric: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case and mapping apply to both sides, and to both metrics."""
    rows = [
        {"id": n.name, "hyps": [{"text": " ".join(h.words).upper(), "score": h.score} for h in n.hypotheses]}
        for n in lists(20, 3)
    ]
    (tmp_path / "l").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = [row["hyps"][0]["text"].lower().split() for row in rows]
    (tmp_path / "ref").write_text(
        "".join(f"{row['id']} {' '.join(words)}\n" for row, words in zip(rows, said, strict=True))
    )
    call = ["rescore", str(run.folder), str(tmp_path / "l"), "--exact", "none", "--json", "--metric", metric]
    call += ["--references", str(tmp_path / "ref"), "--ignore-case"]
    found = []
    for word in (said[0][0], said[0][0].upper()):
        (tmp_path / "map").write_text(f"{word} else\n")
        assert main([*call, "--map", str(tmp_path / "map")]) == 0
        found.append(json.loads(capsys.readouterr().out)[metric])
    assert found[0] == found[1] and (found[0] > 20 if metric == "bleu" else found[0] < 0.9)
    (tmp_path / "map").write_text("uh a\nUH b\n")
    assert main([*call, "--map", str(tmp_path / "map")]) == 2
    assert "mapped to two words" in capsys.readouterr().err


def test_references_that_nobody_asked_for_need_no_package(
    run: sn.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "l").write_text('{"id": "u", "hyps": [{"text": "a", "score": 1}], "ref": "a"}\n')
    (tmp_path / "ref").write_text("u a\n")
    monkeypatch.setitem(sys.modules, "jiwer", None)
    monkeypatch.setattr("selfnorm.cli.rescore.find_spec", lambda name: None)
    call = ["rescore", str(run.folder), str(tmp_path / "l")]
    assert main(call) == 0
    said = capsys.readouterr()
    assert said.out == "u a\n" and "1 lists bring references" in said.err
    assert main([*call, "--references", str(tmp_path / "ref")]) == 2
    assert "jiwer" in capsys.readouterr().err


def test_what_a_command_reads_is_never_written(run: sn.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, given = '{"id": "u", "hyps": [{"text": "a", "score": 1}]}\n', tmp_path / "l.jsonl"
    given.write_text(text)
    (tmp_path / "link").symlink_to(given)
    os.mkfifo(tmp_path / "pipe")
    for to, said in [("l.jsonl", "is read by"), ("link", "is read by"), ("pipe", "a pipe"), ("-", "stands for stdin")]:
        assert main(["rescore", str(run.folder), str(given), "--to", to if to == "-" else str(tmp_path / to)]) == 2
        assert said in capsys.readouterr().err and given.read_text() == text
    assert main(["score", str(run.folder), str(given), "--table", str(given)]) == 2
    assert "is read by" in capsys.readouterr().err and given.read_text() == text
    vocab = (run.folder / "vocab.txt").read_bytes()
    assert main(["rescore", str(run.folder), str(given), "--to", str(run.folder / "vocab.txt")]) == 2
    assert "is a file of the run" in capsys.readouterr().err and (run.folder / "vocab.txt").read_bytes() == vocab
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert main(["rescore", str(run.folder), str(given), "--to", str(tmp_path / "loop")]) == 2
    assert "leads to itself" in capsys.readouterr().err
    (tmp_path / "elsewhere").write_text("old")
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    assert main(["rescore", str(run.folder), str(given), "--to", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").is_symlink() and (tmp_path / "elsewhere").read_text() == "u a\n"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("complete {run} {questions} {answers} --to", "recipe.toml"),
        ("measure {run} --per-word", "history.jsonl"),
        ("score {run} {text} --table", "best.safetensors"),
        ("rescore {run} {lists} --to", "test.mlp.json"),
        ("rescore {run} {lists} --to", "checkpoint.safetensors"),
    ],
)
def test_files_of_the_run_are_never_written(
    call: str, name: str, run: sn.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in run.folder.iterdir()}
    names = {key: tmp_path / key for key in ("questions", "answers", "text", "lists")}
    names["text"].write_text("the cat\n")
    words = call.format(run=run.folder, **names).split()
    assert main([*words, str(run.folder / name)]) == 2
    assert f"{name} is a file of the run" in capsys.readouterr().err
    assert {path.name: path.stat().st_mtime_ns for path in run.folder.iterdir()} == before


def test_other_files_may_be_written_next_to_the_run_again_and_again(run: sn.Run, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("the cat\n")
    (tmp_path / "words.csv").symlink_to(tmp_path / "blob")  # the ending that was given counts
    for table in [run.folder / "words.csv", run.folder / "words.csv", tmp_path / "words.csv"]:
        assert main(["score", str(run.folder), str(tmp_path / "t"), "--table", str(table)]) == 0
    (run.folder / "words.csv").unlink()
    assert (tmp_path / "blob").read_text().startswith("sentence,word,")


def test_nothing_is_written_into_a_folder_of_lists(
    run: sn.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lists").mkdir()
    call = ["rescore", str(run.folder), str(tmp_path / "lists"), "--format", "slf", "--to"]
    assert main([*call, str(tmp_path / "lists" / "out")]) == 2
    assert "in a folder that this command reads" in capsys.readouterr().err


def test_a_pipe_behind_a_device_is_a_pipe(run: sn.Run, tmp_path: Path) -> None:
    (tmp_path / "l").write_text('{"id": "u", "hyps": [{"text": "a", "score": 1}]}\n')
    call = [sys.executable, "-m", "selfnorm", "rescore", str(run.folder), str(tmp_path / "l"), "--to", "/dev/stdout"]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 2 and "/dev/stdout is a device or a pipe" in done.stderr


@pytest.mark.parametrize("closed", ["stdin", "stdout"])
def test_a_closed_stream_is_a_sentence(
    run: sn.Run, tmp_path: Path, closed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "l").write_text("a b\n")
    monkeypatch.setattr(sys, closed, None)
    files = [] if closed == "stdin" else [str(tmp_path / "l")]
    calls = [["score", str(run.folder), *files], ["rescore", str(run.folder), *(files or ["-"])]]
    calls += [["measure", str(run.folder)], ["complete", str(run.folder), *files]] if files else []
    for call in calls:
        assert main(call) == 2
        assert f"{closed} is closed" in capsys.readouterr().err


def test_the_table_of_scores_has_the_words_that_were_scored(run: sn.Run, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("the cat\na dog\n")
    call = ["score", str(run.folder), str(tmp_path / "t"), "--table", str(tmp_path / "t.csv")]
    for more, ends in (([], 2), (["--no-eos"], 0)):
        assert main([*call, *more]) == 0
        assert (tmp_path / "t.csv").read_text().count("<eos>") == ends


def test_bytes_are_no_sentence(run: sn.Run) -> None:
    with pytest.raises(sn.UserError, match="found bytes"):
        run.scorer().score(b"the cat")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--workers 0", "at least 1"),
        ("--temperature 0", "above 0"),
        ("--exact some", "some"),
        ("--paths 0", "at least 1"),
    ],
)
def test_wrong_options_are_named(
    run: sn.Run, tmp_path: Path, more: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "l").write_text('{"id": "u", "hyps": [{"text": "a", "score": 1}]}\n')
    assert main(["rescore", str(run.folder), str(tmp_path / "l"), *more.split()]) == 2
    assert said in capsys.readouterr().err


def test_the_command_reads_stdin(
    run: sn.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lists.jsonl"
    file.write_text('{"id": "u7", "hyps": [{"text": "a b", "score": 1}, {"text": "b", "score": 2}]}\n')
    with file.open() as handle:
        monkeypatch.setattr("sys.stdin", handle)
        assert main(["rescore", str(run.folder), "-", "--lm-weight", "0"]) == 0
    assert capsys.readouterr().out == "u7 b\n"

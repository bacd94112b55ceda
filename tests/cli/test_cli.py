"""The door: help that reads well and fast, errors with exit code 2 and no traceback, JSON for programs."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from selfnorm.cli import after_interrupt, app, main

from ..conftest import write_text

COMMANDS = [
    "data prepare",
    "train",
    "measure",
    "calibrate",
    "demo",
    "study plan",
    "study run",
    "report",
    "bench steps",
    "bench scoring",
]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_says_what_each_command_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    said = capsys.readouterr().out
    assert "Usage: selfnorm" in said and len(said.splitlines()) > 5


def test_help_answers_in_well_under_a_second() -> None:
    """In seconds of processor time, which a busy machine does not stretch as it does the clock."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "selfnorm", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 1.0


WRONG = [
    ("trian --to x", "train"),
    ("train --to {tmp}/x --set criterion.name=ncee", 'Did you mean "nce"'),
    ("train --to {tmp}/x --set criterion.alpah=1", 'Did you mean "alpha"'),
    ("train {tmp}/none.toml --to {tmp}/x", "does not exist"),
    ("train --to {tmp}/x --set data.name=nothing", "not a built-in text"),
    ("train --to {tmp}/x --set data.name=ptb --from {tmp}/nowhere", "is not a folder"),
    ("train --to {tmp}/x --set data.name=ptb --from {tmp}", "ptb.train.txt"),
    ("train --to {tmp}/x --set data.file={tmp}/empty.txt", "is empty"),
    ("train --to {tmp}/x --set data.file={tmp}/latin.txt", "not UTF-8"),
    ("train --to {tmp}/x --set data.file={tmp}/one.txt", "vocabulary of"),
    ("train --to {tmp}/x --set data.file={tmp}/short.txt", "too few for one window"),
    ("measure {tmp}", "is not a run folder"),
    ("calibrate {tmp}", "is not a run folder"),
    ("calibrate {tmp} --with magic", "magic"),
    ("measure", "RUN"),
    ("study plan nonsense", "neither a study file nor built in"),
    ("study run paper --only nonsense", "matches no run"),
    ("report {tmp}/nowhere", "is not a folder"),
    ("report {tmp}", "No measurement"),
    ("data prepare ptb --from {tmp}", "ptb.train.txt"),
    ("data prepare ../out --file {tmp}/short.txt", "it names folders"),
    ("train --to {tmp}/x --set model.encoder=foo", "Known: lstm, gru"),
    ("train --to {tmp}/x --set criterion.alpha=nan", "finite number"),
    ("train --to {tmp}/x --then foo", "expected one of train, valid, test"),
    (
        "train --to {tmp}/short.txt --set data.file={tmp}/good.txt --set training.batch=2 --set training.steps=2",
        "short.txt",
    ),
    ("study plan {tmp}/grid.toml", "[[grid]]"),
    ("report {tmp}/short.txt", "is not a folder"),
    ("rescore {tmp} {tmp} --test {tmp}", "--test goes with --tune"),
    ("rescore {tmp} {tmp} --ngram-weight 7", "from 0 to 1"),
    ("complete {tmp} {tmp}/short.txt --to {tmp}/y.json", "give ANSWERS"),
    ("study run demo --jobs -1 --to {tmp}/s", "--jobs -1"),
    ("study plan {tmp}/bare.toml", "a section and a key in quotes"),
    ("train --to {tmp}/r --set model.d=1000000000000000000000", "at most 100,000"),
    ("train --to {tmp}/r --set training.epochs=1" + "0" * 20, "at most a million"),
    ("train --to {tmp}/r --set model.layers=1" + "0" * 5000, "model"),
    ("study plan {tmp}/nothing.toml", "there is nothing to train"),
    ("study plan {tmp}/gone.toml", "gone.txt' of"),
    ("study run {tmp}/gone.toml --to {tmp}/study", "does not exist, seen from"),
    ("study plan {tmp}/then.toml", "a list of steps was expected"),
    ("study plan {tmp}/date.toml", "a number, a word, true or false"),
    ("train --to {tmp}/x --set data.name=ptb --set data.file={tmp}/short.txt", "is a built-in one"),
    ("train --to {tmp}/x --set criterion.power=-1000", "between -10 and 10"),
    ("train --to {tmp}/x --set training.seed=99999999999999999999", "2^63"),
    ("bench steps --d 0", "--d 0: give at least 1"),
    ("bench scoring --rounds 0", "--rounds 0: give at least 1"),
    ("bench steps --criteria nc", 'Did you mean "nce"'),
    ("calibrate {tmp} --stored --sigma 0.01", "leave --cost and --sigma out"),
    ("calibrate {tmp} --with none --other {tmp}/good.txt", "leave it out with --stored"),
    ("calibrate {tmp} --other {tmp}/nothere.txt", "nothere.txt: there is no such file"),
    ("calibrate {tmp} --other {tmp}/empty.txt", "empty.txt is empty"),
    ("calibrate {tmp} --other {tmp}/latin.txt", "not UTF-8"),
    ("measure {tmp} {tmp}/good.txt --split valid", "--split and --from are for the run's own text"),
    ("report {tmp} --index -o {tmp}/z.md", "leave --out and --figures out"),
    (
        "train --to {tmp}/x --set data.file={tmp}/good.txt --set criterion.penalty=sampled",
        "Set criterion.alpha (to 0 for none)",
    ),
]


@pytest.mark.parametrize(("line", "says"), WRONG)
def test_a_mistake_is_a_sentence_with_exit_code_2_and_nothing_written(
    line: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 au lait\n" * 50)
    (tmp_path / "one.txt").write_text("solo\n" * 300)
    write_text(tmp_path / "short.txt", lines=45)
    write_text(tmp_path / "good.txt", lines=300)
    (tmp_path / "grid.toml").write_text('[grid]\n"model.d" = [1]\n')
    (tmp_path / "bare.toml").write_text('[[grid]]\ncriterion.name = ["nce", "softmax"]\n')
    (tmp_path / "nothing.toml").write_text('title = "no runs"\n')
    (tmp_path / "gone.toml").write_text('[recipe.data]\nfile = "gone.txt"\n')
    (tmp_path / "then.toml").write_text("then = 5\n")
    (tmp_path / "date.toml").write_text('[[grid]]\n"model.d" = 2026-11-16\n')
    before = sorted(p.name for p in tmp_path.rglob("*"))
    assert main(line.format(tmp=tmp_path).split()) == 2
    said = capsys.readouterr().err
    assert says in said and "Traceback" not in said
    assert [n for n in sorted(p.name for p in tmp_path.rglob("*")) if n not in before and n not in ("x", ".lock")] == []


def test_the_whole_way_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_text(tmp_path / "own.txt")
    sets = "--set model.d=8 --set training.epochs=1 --set training.batch=4 --set training.steps=5 --set criterion.k=5"
    assert main(["data", "prepare", "own", "--file", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["V"] > 10
    assert main(f"train --to {tmp_path}/run --set data.file={file} {sets}".split()) == 0
    capsys.readouterr()
    assert main(f"measure {tmp_path}/run --split test --json".split()) == 0
    found = json.loads(capsys.readouterr().out)
    for field in (
        "signature",
        "mu_z",
        "sigma_z",
        "perplexity",
        "u_perplexity",
        "words",
        "seconds",
        "command",
        "date",
        "seed",
    ):
        assert field in found
    assert main(f"calibrate {tmp_path}/run --with shift --json".split()) == 0
    after = json.loads(capsys.readouterr().out)["valid_after"]
    assert abs(after["mu_z"]) < 1e-4
    assert main(f"calibrate {tmp_path}/run --with mlp --passes 2 --hidden 8 --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["hidden"] == [8]
    assert main(f"measure {tmp_path}/run --split test".split()) == 0
    said = capsys.readouterr()
    assert "sigma_z" in said.out and "calibration:mlp" in said.err
    assert main(f"calibrate {tmp_path}/run --with none".split()) == 0
    assert main(f"report {tmp_path} -o {tmp_path}/r.md".split()) == 0
    assert "| NCE-LM |" in (tmp_path / "r.md").read_text()


def test_bench_gives_the_promised_fields(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert (
        main(
            f"bench steps --d 8 --vocab 300 --criteria nce softmax --rounds 2 --threads 1 --json --to {tmp_path}".split()
        )
        == 0
    )
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {"nce", "softmax", "lstm"} <= {row["criterion"] for row in rows}
    assert all({"criterion", "d", "V", "seconds", "floor_seconds", "ratio"} <= set(row) for row in rows)
    assert (tmp_path / "steps.svg").read_text().startswith("<svg")
    assert main(["bench", "scoring", "--d", "8", "--vocab", "300", "--rounds", "2", "--threads", "1", "--json"]) == 0
    assert "seconds_per_1000_words" in json.loads(capsys.readouterr().out)["rows"][0]


def test_a_stopped_bench_keeps_the_sizes_it_has_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from selfnorm.studies.bench import scoring

    measured = scoring.bench_scoring

    def stop_at_the_second(d: int, V: int, rounds: int, device: object, advance: object) -> list[dict[str, object]]:
        if V == 400:
            raise KeyboardInterrupt
        return measured(d, V, rounds, device, lambda share: None)

    monkeypatch.setattr(scoring, "bench_scoring", stop_at_the_second)
    assert main(f"bench scoring --d 8 --vocab 300 400 --rounds 1 --threads 1 --to {tmp_path}".split()) == 130
    assert {row["V"] for row in json.loads((tmp_path / "scoring.json").read_text())["rows"]} == {300}


def test_every_criterion_is_timed_where_its_cost_allows() -> None:
    from selfnorm.registry.criteria import CRITERIA
    from selfnorm.studies.bench.steps import planned

    ((_, _, small), (_, _, large)) = planned([100], [10_000, 1_000_000], list(CRITERIA))
    assert set(CRITERIA) < set(small) and {"lstm", "products"} < set(small)
    assert {"nce", "snis", "blackout", "lstm"} < set(large) and not {"softmax", "nce_r", "products"} & set(large)


def test_the_app_is_named_after_the_project() -> None:
    assert app.name[0] == "selfnorm"


@pytest.mark.parametrize(
    ("line", "resumes"),
    [
        ("train --to x", True), ("--trust train --to x", True), ("study run paper", True), ("audit f t", True), ("score r t --on=ray", True),
        ("score r t --on ray", True), ("study plan paper", False), ("score run ray", False), ("calibrate run", False),
    ],
)  # fmt: skip
def test_an_interrupted_command_says_whether_it_resumes(line: str, resumes: bool) -> None:
    assert ("resume" in after_interrupt(line.split())) == resumes

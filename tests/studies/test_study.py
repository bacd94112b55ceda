"""Studies: plans, shared runs, resuming after SIGKILL, and reports with the paper's numbers."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from selfnorm._util.errors import UserError
from selfnorm._util.files import is_locked
from selfnorm.cli import main
from selfnorm.config.criterion import settle
from selfnorm.config.naming import run_name
from selfnorm.config.recipe import CriterionSettings, Data, Model, Recipe, Training
from selfnorm.config.signature import parse_signature, signature
from selfnorm.evaluation.measurement import Measurement
from selfnorm.registry.criteria import CRITERIA, label
from selfnorm.report.charts.entropy import figure_1
from selfnorm.report.collect import Collected, Record, collect, name_beside
from selfnorm.report.menu import menus
from selfnorm.report.page import write_report
from selfnorm.report.paper import find, missing_table, paper_tables
from selfnorm.report.seeds import seed_tables
from selfnorm.report.tidy import tidy
from selfnorm.studies.engines import run_here
from selfnorm.studies.experiment import run_experiment as train_run
from selfnorm.studies.plan import about, chosen, read_study
from selfnorm.studies.progress import progress_of, seconds_left
from selfnorm.studies.view import differing

from ..conftest import write_text

STUDY = """
title = "tiny"
then = ["valid", "test.shift"]
[recipe.data]
name = "tiny"
file = "{file}"
[recipe.model]
d = 8
[recipe.training]
epochs = 2
batch = 4
steps = 8
[[grid]]
"criterion.name" = ["nce", "softmax"]
"criterion.k" = 5
"""


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    file = write_text(tmp_path / "text.txt", lines=400)
    (tmp_path / "study.toml").write_text(STUDY.format(file=file))
    return tmp_path / "study.toml"


def test_runs_shared_between_tables_are_planned_once() -> None:
    whole = read_study("paper").planned
    assert len({p.name for p in whole}) == len(whole)
    # Table 1: 16, Table 2: 24, Table 3: 16, Table 6: 8; Tables 4 and 5 add none.
    assert len(whole) == 64
    shared = next(p for p in whole if p.name.startswith("ptb-nce-d650-"))
    assert shared.then == ("valid", "test", "test.shift", "times")


def test_a_run_name_does_not_depend_on_where_the_text_is() -> None:
    one, two = (
        read_study("paper/table1"),
        read_study("paper/table1", ['data.folder="/x"', "training.threads=2"]),
    )
    assert [p.name for p in one.planned] == [p.name for p in two.planned]
    assert run_name(read_study("paper/table1", ["training.epochs=3"]).planned[0].recipe) != one.planned[0].name


def test_only_means_whole_parts_of_a_name() -> None:
    study = read_study("paper/table1")
    names = [p.name for p in chosen(study, ["ptb-nce-d30"])]
    assert len(names) == 1 and "-d30-" in names[0]
    assert len(chosen(study, ["d30", "d100"])) == 8
    assert chosen(study, [names[0][-6:]])[0].name == names[0]
    assert len(chosen(study, [])) == len(study.planned)
    with pytest.raises(UserError, match="Whole parts"):
        chosen(study, ["nce-d3"])


def test_a_base_recipe_need_not_be_one_that_can_be_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = '[[grid]]\n"model.d" = [8, 16]\n'
    (tmp_path / "s.toml").write_text('[recipe.model]\nencoder = "transformer"\n' + grid)
    assert {p.recipe.model.d for p in read_study(str(tmp_path / "s.toml")).planned} == {8, 16}
    assert about(str(tmp_path / "s.toml"))["factors"] == ["model.d"]
    (tmp_path / "s.toml").write_text(grid)
    assert len(about(str(tmp_path / "s.toml"), ["model.encoder=transformer"])["runs"]) == 2
    (tmp_path / "s.toml").write_text('[recipe.model]\nencoder = "transformer"\n[[grid]]\n"model.d" = [8, 9]\n')
    with pytest.raises(UserError, match=r"model\.d = 9"):
        read_study(str(tmp_path / "s.toml"))


def test_a_setting_that_some_runs_cannot_have_is_named_with_the_run(tmp_path: Path) -> None:
    base = '[recipe.criterion]\npenalty = "variance"\n[[grid]]\n"criterion.name" = ["devlin", "softmax"]\n'
    (tmp_path / "s.toml").write_text(base)
    with pytest.raises(
        UserError, match=r"s\.toml: .*softmax has no penalty.*run with criterion\.name=.softmax.*of its own"
    ):
        read_study(str(tmp_path / "s.toml"))
    (tmp_path / "s.toml").write_text(base + '"criterion.alpha" = 0\n')
    assert len(read_study(str(tmp_path / "s.toml")).planned) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('"criterion.name" = "*nce"', '"\\*" was expected'),
        ('"criterion.name" = "* nce"', '"\\*" was expected'),
        ('"foo.x" = [1, 2]', "s.toml: foo.x in a grid.*Sections: data"),
    ],
)
def test_a_wrong_line_of_a_grid_names_the_file(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(f"[[grid]]\n{line}\n")
    with pytest.raises(UserError, match=said):
        read_study(str(tmp_path / "s.toml"))


def test_seeds_make_runs_of_their_own(study_file: Path) -> None:
    assert len(read_study(str(study_file), seeds=3).planned) == 6


def test_a_wrong_key_in_a_study_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('titel = "x"\n')
    with pytest.raises(UserError, match="unknown key titel"):
        read_study(str(tmp_path / "s.toml"))


@pytest.mark.parametrize(
    "axis",
    ['"data.folder" = ["a", "b"]', '"training.validate_minutes" = [0.0, 15.0]', '"training.validate_epochs" = [1, 2]'],
)
def test_two_runs_of_one_name_are_refused(axis: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(f'[[grid]]\n"data.name" = "x"\n{axis}\n')
    with pytest.raises(UserError, match="both be called x-nce-d100"):
        read_study(str(tmp_path / "s.toml"))


def test_a_run_without_a_validation_yet_is_not_new(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[[grid]]\n"data.name" = "x"\n')
    (run,) = read_study(str(tmp_path / "s.toml")).planned
    assert progress_of(run, tmp_path).state == "new"
    (tmp_path / run.name).mkdir()
    (tmp_path / run.name / "checkpoint.safetensors").touch()
    assert progress_of(run, tmp_path).state == "part"


def test_a_text_of_ones_own_is_called_by_the_file_that_is_trained_on(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[recipe.data]\nfile = "a.txt"\n')
    assert read_study(str(tmp_path / "s.toml"), ["data.file=b.txt"]).planned[0].recipe.data.name == "b"
    (tmp_path / "s.toml").write_text('[[grid]]\n"data.file" = ["a.txt", "b.txt"]\n')
    assert [p.recipe.data.name for p in read_study(str(tmp_path / "s.toml")).planned] == ["a", "b"]
    (tmp_path / "s.toml").write_text('[[grid]]\n"data.name" = "x"\n"data.folder" = "/new\\\\text/\U0001f600"\n')
    assert read_study(str(tmp_path / "s.toml")).planned[0].recipe.data.folder == "/new\\text/\U0001f600"


def one_at_a_time(study: Path, to: Path) -> list[str]:
    return [sys.executable, "-m", "selfnorm", "study", "run", str(study), "--to", str(to), "--jobs", "1"]


def test_a_study_killed_in_the_middle_finishes_with_the_same_numbers(study_file: Path, tmp_path: Path) -> None:
    planned = list(read_study(str(study_file)).planned)
    assert run_here(planned, tmp_path / "whole", 2) == []
    command = one_at_a_time(study_file, tmp_path / "killed")
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 90
    while not list((tmp_path / "killed").glob("*/history.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    for run in planned:
        assert progress_of(run, tmp_path / "killed").state == "done"
        one, two = (
            json.loads((tmp_path / which / run.name / "valid.json").read_text()) for which in ("whole", "killed")
        )
        assert one["perplexity"] == two["perplexity"] and one["sigma_z"] == two["sigma_z"]
    assert seconds_left(planned, tmp_path / "killed", 1) == 0


def test_progress_shows_the_weights_kept_and_the_time_left_counts_what_comes_after_training(tmp_path: Path) -> None:
    run = read_study("menu").planned[0]
    folder = tmp_path / run.name
    folder.mkdir()
    lines = [{"epoch": 10 * n, "perplexity": p, "sigma_z": n, "seconds": 50.0 * n} for n, p in ((1, 99.0), (2, 101.0))]
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "model.safetensors").write_bytes(b"x")
    progress = progress_of(run, tmp_path)
    assert (progress.state, progress.perplexity, progress.sigma_z) == ("measuring", 99.0, 1)
    before = seconds_left([run], tmp_path, 1)
    (folder / "test.mlp.json").write_text("{}")
    after = seconds_left([run], tmp_path, 1)
    assert before is not None and after is not None and before > after > 0
    assert seconds_left([run], tmp_path, 8) == after, "one run is not quicker for seven idle cores"


def test_a_failed_run_is_reported_and_not_retried(
    study_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = list(read_study(str(study_file), ["training.batch=5000"]).planned)
    assert len(run_here(planned, tmp_path / "s", 2)) == 2
    assert "FAILED" in capsys.readouterr().err


HISTOGRAM = {"counts": [1, 2, 1], "low": -1.0, "high": 1.0}


def made_up(
    criterion: str,
    d: int,
    split: str = "valid",
    calibration: str = "none",
    alpha: str = "0",
    **numbers: float,
) -> Record:
    line = f"data:ptb|split:{split}|criterion:{criterion}|alpha:{alpha}|gamma:1|k:100|d:{d}|epochs:20|calibration:{calibration}|seed:1|version:0"
    values = {
        "mu_z": 0.0,
        "sigma_z": 0.1,
        "perplexity": 100.0,
        "u_perplexity": 100.0,
        "correlation": -0.3,
        **numbers,
    }
    return Record("run", Measurement(line, words=10, seconds=1, seed=1, **values), parse_signature(line))


def test_a_cell_shows_paper_ours_and_difference_in_columns_and_a_missing_one_its_command() -> None:
    ours = [made_up("nce", 100, perplexity=153.9, sigma_z=0.18)]
    table = paper_tables(ours)[0]
    (row,) = (dict(zip(table.head, row, strict=True)) for row in table.rows)
    assert [row[f"perplexity {which}"] for which in ("paper", "ours", "diff")] == ["150.9", "153.9", "+2.0 %"]
    assert [row[f"sigma_z {which}"] for which in ("paper", "ours", "diff")] == ["0.170", "0.180", "+0.010"]
    missing = {tuple(row[:4]): row[-1] for row in missing_table(ours).rows}
    assert ("1", "ptb", "NCE-LM", "100") not in missing
    assert missing["1", "ptb", "SM-LM", "650"] == "selfnorm study run paper/table1 --only ptb-softmax-d650"


def test_a_cell_whose_noise_words_were_drawn_per_step_is_the_papers_too_and_says_so() -> None:
    window = made_up("nce", 100, perplexity=153.5)
    step = replace(made_up("nce", 100, perplexity=150.2), parts={**window.parts, "shared": "step"})
    table = paper_tables([window, step])[0]
    place = table.head.index("note")
    assert [row[place] for row in table.rows] == ["", "noise words drawn per step"]
    alone = replace(made_up("nce", 650), parts={**made_up("nce", 650).parts, "shared": "step"})
    assert not [row for row in missing_table([alone]).rows if row[:4] == ["1", "ptb", "NCE-LM", "650"]]


def test_runs_with_bf16_products_are_cells_with_a_note_and_other_changes_are_none() -> None:
    plain = made_up("softmax", 100)
    half, other = (replace(plain, parts={**plain.parts, "others": text}) for text in ("precision=bf16", "clip=1.0"))
    table = paper_tables([plain, half, other])[0]
    assert [row[table.head.index("note")] for row in table.rows] == ["", "trained with bf16 products"]


def test_the_command_of_a_missing_cell_trains_that_cell_alone() -> None:
    rows = missing_table([]).rows
    assert len(rows) == 80
    for _, data, model, d, alpha, _, command in rows:
        name, _, only = command.removeprefix("selfnorm study run ").partition(" --only ")
        (planned,) = chosen(read_study(name), [only])
        assert planned.recipe.data.name == data and str(planned.recipe.model.d) == d
        assert label(planned.recipe.criterion.name) == model
        assert alpha in ("–", f"{planned.recipe.criterion.alpha:g}")


def test_the_papers_numbers_were_typed_right_where_they_check_each_other() -> None:
    """Table 4's u-perp is perp·exp(+mu_z) in print, in all eight cells: the slip the footnote speaks of."""
    import math
    import tomllib

    from selfnorm.report.paper import EXPECTED

    table = tomllib.loads(EXPECTED.read_text())["table"]
    assert [len(t["cell"]) for t in table] == [16, 24, 16, 8, 16]
    for cell in table[3]["cell"]:
        assert cell["u_perplexity"] == pytest.approx(cell["perplexity"] * math.exp(cell["mu_z"]), rel=2e-3)


def test_text_from_outside_is_escaped_in_the_page(tmp_path: Path) -> None:
    record = made_up("nce", 100)
    bad = Measurement(**{**record.measured.__dict__, "command": "<script>alert(1)</script>"})
    bad.write(tmp_path / "run" / "valid.json")
    histogram = {"counts": [1, 2, 1], "low": -1.0, "high": 1.0}
    Measurement(
        **{
            **bad.__dict__,
            "histogram": histogram,
            "entropy_histogram": {"counts": [[1, 2], [3, 4]], "entropy": [0, 1], "log_z": [-1, 1]},
        }
    ).write(tmp_path / "run" / "valid.json")
    write_report(tmp_path, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<script>alert" not in page and "&lt;script&gt;" in page
    own = page[: page.index('id="library"')]
    assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=", own), "the page loads nothing"


def test_a_measurement_with_the_least_it_may_hold_makes_a_report(tmp_path: Path) -> None:
    for name in ("nce", "softmax"):
        line = f"data:ptb|split:test|criterion:{name}|d:100"
        made = replace(made_up(name, 100).measured, signature=line, blocks=[[10.0, 1.0, 1.0, 50.0, 1.0, 1.0, 1.0]] * 4)
        made.write(tmp_path / name / "test.json")
    write_report(tmp_path, tmp_path / "r.html")
    assert "SM-LM" in (tmp_path / "r.html").read_text()


def test_figures_set_side_by_side_what_can_be_compared(tmp_path: Path) -> None:
    """A frontier for every size with more than one model; Figure 1 and examples of the usual settings."""
    for name, d in (("nce", 30), ("softmax", 30), ("nce", 100), ("softmax", 100), ("nce", 300)):
        replace(made_up(name, d, split="test").measured, histogram=HISTOGRAM).write(
            tmp_path / f"{name}{d}" / "test.json"
        )
    page = tmp_path / "r.html"
    write_report(tmp_path, page)
    (text,) = re.findall(r'id="figure-sigma-z-against-[^"]+-spec">(.+?)</script>', page.read_text())
    assert [panel["title"] for panel in json.loads(text)["concat"]] == ["d = 30", "d = 100"]
    usual = made_up("nce", 100, perplexity=150.0)
    more = replace(usual, parts={**usual.parts, "k": "1000"}, measured=replace(usual.measured, perplexity=140.0))
    entropy = {"counts": [[1]], "entropy": [0, 1], "log_z": [0, 1]}
    both = [replace(r, measured=replace(r.measured, entropy_histogram=entropy)) for r in (more, usual)]
    assert figure_1([*both, replace(both[1], parts={**usual.parts, "d": "30"})])[-1].k == "100"


def test_a_report_is_a_function_of_its_json(tmp_path: Path) -> None:
    made_up("nce", 100).measured.write(tmp_path / "a" / "valid.json")
    write_report(tmp_path, tmp_path / "1.csv")
    write_report(tmp_path, tmp_path / "2.csv")
    assert (tmp_path / "1.csv").read_bytes() == (tmp_path / "2.csv").read_bytes()
    assert len(collect(tmp_path).records) == 1


def test_the_menu_sets_criteria_side_by_side_on_the_same_text() -> None:
    names = ["nce", "softmax", "devlin", "ranking", "classes", "blackout"]
    records = [
        replace(made_up(name, 100, split="test", perplexity=100.0 + place), run=name)
        for place, name in enumerate(names)
    ]
    after = replace(made_up("softmax", 100, split="test", calibration="mlp", sigma_z=0.04), run="softmax")
    histories = {
        "softmax": [
            {"epoch": float(epoch), "seconds": 20.0 * epoch + 3600.0 * (epoch > 2), "megabytes": 321 - epoch}
            for epoch in range(1, 6)  # the third was halted for an hour
        ]
    }
    tables = menus(Collected([*records, after], histories))
    assert len(tables) == 1 and [row[0] for row in tables[0].rows] == [label(name) for name in names]
    assert tables[0].rows[1][2:] == ["no", "101.0", "0", "0.100", "0.0400", "20", "320"]
    assert not menus(Collected(records[:3])), "three criteria are no menu"


def test_every_criterion_is_on_the_menu_for_both_texts() -> None:
    planned = read_study("menu").planned
    for text in ("ptb", "sotu"):
        assert {p.recipe.criterion.name for p in planned if p.recipe.data.name == text} == set(CRITERIA)
    then = {p.recipe.criterion.name: p.then for p in planned}
    assert "test.mlp" in then["softmax"] and then["adaptive"] == ("valid", "test", "cost"), "nothing to calibrate"


def test_a_cell_takes_no_run_with_other_settings() -> None:
    """A run with another way to draw D', another dropout or part of the text is not the paper's, whatever its alpha."""
    cell = {"data": "ptb", "split": "valid", "criterion": "nce_r", "d": 650, "alpha": 10.0, "gamma": 0.1}
    base = settle(CriterionSettings(name="nce_r"))
    recipe = Recipe(data=Data(name="ptb"), model=Model(d=650), criterion=base)
    others = [
        replace(recipe, criterion=replace(base, subset="contexts" if base.subset == "windows" else "windows")),
        replace(recipe, model=Model(d=650, dropout=0.3)),
        replace(recipe, model=Model(d=650, squash=True)),
        replace(recipe, training=Training(decay=2.0)),
        replace(recipe, data=Data(name="ptb", max_words=1000)),
    ]
    numbers = {"mu_z": 0.0, "sigma_z": 0.1, "perplexity": 100.0, "u_perplexity": 100.0, "correlation": 0.0}
    records = []
    for one in [recipe, *others]:
        line = signature(one, "valid")
        measured = Measurement(line, words=10, seconds=1, seed=1, **numbers)
        records.append(Record(line, measured, parse_signature(line)))
    assert [r.run for r in find(cell, records)] == [signature(recipe, "valid")]


def test_a_study_takes_its_trainings_with_it_when_it_is_terminated(study_file: Path, tmp_path: Path) -> None:
    line = one_at_a_time(study_file, tmp_path / "s")
    study = subprocess.Popen([*line, "--set", "training.epochs=1000"], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "s").glob("*/history.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.1)
    (folder,) = (path.parent for path in (tmp_path / "s").glob("*/history.jsonl"))
    assert is_locked(folder)
    study.terminate()
    assert study.wait(timeout=30) == 143
    while is_locked(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_locked(folder), "its training is gone too"


def test_a_run_another_process_trains_is_waited_for(study_file: Path, tmp_path: Path, capfd: Any) -> None:
    (first, *_) = planned = list(read_study(str(study_file)).planned)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "s" / first.name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: found.append(run_here(planned, tmp_path / "s", 1)))
    thread.start()
    second = tmp_path / "s" / planned[1].name / "test.shift.json"
    deadline = time.monotonic() + 90
    while not second.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert second.exists() and not (tmp_path / "s" / first.name / "valid.json").exists()
    holder.communicate()
    thread.join(timeout=90)
    assert found == [[]] and (tmp_path / "s" / first.name / "test.shift.json").exists()
    assert f"waiting for {first.name}" in capfd.readouterr().err


HOLD = """
import sys
from pathlib import Path
from selfnorm._util.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_wrong_steps_and_two_kinds_of_seeds_are_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('then = ["valid", "tset"]\n')
    with pytest.raises(UserError, match="'tset'"):
        read_study(str(tmp_path / "s.toml"))
    (tmp_path / "s.toml").write_text('[[grid]]\n"training.seed" = [7, 8]\n')
    assert [p.recipe.training.seed for p in read_study(str(tmp_path / "s.toml")).planned] == [7, 8]
    with pytest.raises(UserError, match="Leave one of them out"):
        read_study(str(tmp_path / "s.toml"), seeds=2)
    (tmp_path / "s.toml").write_text("grid = []\n")
    with pytest.raises(UserError, match="nothing to train"):
        read_study(str(tmp_path / "s.toml"))


def test_a_plan_tells_runs_of_one_name_apart(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[[grid]]\n"model.dropout" = [0.0, 0.5]\n"model.d" = [8, 16]\n')
    planned = read_study(str(tmp_path / "s.toml")).planned
    assert set(differing(planned).values()) == {"model.dropout=0.0", "model.dropout=0.5"}
    assert not differing(planned[:1])


def test_a_row_says_what_is_not_usual() -> None:
    plain = made_up("nce", 100)
    assert plain.name == plain.full_name == "NCE-LM"
    other = replace(plain, parts={**plain.parts, "noise": "uniform", "shared": "token", "others": "dropout=0.0"})
    assert other.name == "NCE-LM, noise uniform, noise per token"
    assert other.full_name == "NCE-LM, noise uniform, noise per token, dropout=0.0"
    assert name_beside(other, [other, other]) == other.name, "what all have is said above"
    assert name_beside(other, [other, plain]) == other.full_name
    penalized = made_up("nce_r", 650, alpha="10")
    assert penalized.name == "NCE-R-LM α=10, γ=1"
    assert replace(penalized, parts={**penalized.parts, "gamma": "0.1"}).name == "NCE-R-LM α=10"
    assert not find({"data": "ptb", "split": "valid", "criterion": "nce", "d": 100}, [other])


def test_seeds_of_one_recipe_get_a_mean_and_a_spread() -> None:
    one = made_up("nce", 100, perplexity=150.0)
    two = replace(made_up("nce", 100, perplexity=154.0), parts={**one.parts, "seed": "2"})
    (table,) = seed_tables([one, two, made_up("softmax", 100)])
    assert [row[0] for row in table.rows] == ["NCE-LM"] and table.rows[0][4] == "2"
    assert table.rows[0][7] == "152.00 ± 2.83"


def test_a_csv_is_one_row_of_numbers_per_measurement() -> None:
    first = made_up("nce", 100)
    bounded = replace(first, measured=replace(first.measured, intervals={"sigma_z": (0.1, 0.2)}))
    rows = list(csv.DictReader(io.StringIO(tidy([bounded, made_up("softmax", 100)]))))
    assert len(rows) == 2 and float(rows[0]["sigma_z_high"]) == 0.2 and rows[1]["sigma_z_high"] == ""
    assert rows[0]["criterion"] == "nce" and float(rows[0]["perplexity"]) > 0 and None not in rows[0]


@pytest.mark.parametrize("broken", [{"perplexity": None}, {"signature": "foo"}, {"mu_z": "0.1"}])
def test_a_file_that_only_looks_like_a_measurement_is_an_error(tmp_path: Path, broken: dict[str, Any]) -> None:
    made_up("nce", 100).measured.write(tmp_path / "valid.json")
    table = json.loads((tmp_path / "valid.json").read_text())
    (tmp_path / "valid.json").write_text(json.dumps({**table, **broken}))
    with pytest.raises(UserError, match="not a whole measurement"):
        collect(tmp_path)


def test_runs_on_another_text_of_the_same_name_do_not_pass_for_these(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "one" / "my.txt", tmp_path / "two" / "my.txt"
    for place, file in enumerate((one, two)):
        file.parent.mkdir()
        write_text(file, lines=100, seed=place)
        study = f'[recipe.data]\nname = "mine"\nfile = "{file}"\n[recipe.model]\nd = 4\n[recipe.training]\nepochs = 1\nbatch = 2\nsteps = 4\n'
        (tmp_path / f"{file.parent.name}.toml").write_text(study)
    planned = read_study(str(tmp_path / "one.toml")).planned
    trained = str(train_run(planned[0].recipe, tmp_path / "s" / planned[0].name).folder)
    assert main(["study", "plan", str(tmp_path / "one.toml"), "--to", str(tmp_path / "s")]) == 0
    for verb in ("plan", "run"):
        assert main(["study", verb, str(tmp_path / "two.toml"), "--to", str(tmp_path / "s")]) == 2
        assert "another text" in capsys.readouterr().err
    lines = one.read_text().splitlines()
    about = tmp_path / "s" / planned[0].name / "env.json"
    stamped = about.read_text()
    (about.parent / "manifest.json").unlink()
    about.write_text("{}")  # a run of an older version does not say what its text was
    assert main(["study", "plan", str(tmp_path / "two.toml"), "--to", str(tmp_path / "s")]) == 2
    assert main(["study", "plan", str(tmp_path / "one.toml"), "--to", str(tmp_path / "s")]) == 0
    about.write_text(stamped)
    lines[95], lines[96] = lines[96], lines[95]  # the same words in the same order of counts, at the same place
    assert lines[95] != lines[96]
    one.write_text("\n".join(lines) + "\n")
    assert main(["study", "plan", str(tmp_path / "one.toml"), "--to", str(tmp_path / "s")]) == 2
    assert main(["measure", trained]) == 2 and main(["train", f"{trained}/recipe.toml", "--to", trained]) == 2
    assert "has changed since it was trained" in capsys.readouterr().err

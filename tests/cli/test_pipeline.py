"""From text to report, twice, with identical bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from selfnorm.data.corpus import open_corpus
from selfnorm.data.windows import Windows
from selfnorm.report.collect import collect
from selfnorm.report.page import write_report
from selfnorm.studies.experiment import run_experiment as run

from ..conftest import tiny, write_text


def test_the_same_recipe_gives_the_same_bytes(tmp_path: Path) -> None:
    file = write_text(tmp_path / "tiny.txt")
    for name in ("one", "two"):
        run(tiny(file, name="nce_r"), tmp_path / name / "run", ["valid", "test", "test.shift"])
        write_report(tmp_path / name, tmp_path / f"{name}.csv")
    for weights in ("model.safetensors", "best.safetensors", "calibration.shift.safetensors"):
        assert (tmp_path / "one" / "run" / weights).read_bytes() == (tmp_path / "two" / "run" / weights).read_bytes()
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    histories = [
        [json.loads(line) for line in (tmp_path / n / "run" / "history.jsonl").read_text().splitlines()]
        for n in ("one", "two")
    ]
    for line in (*histories[0], *histories[1]):
        del line["seconds"], line["megabytes"]
    assert histories[0] == histories[1]
    write_report(tmp_path / "one", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert page.count('class="chart"') == 2 and "NCE-R-LM" in page, "training and log Z; one run makes no frontier"


def test_run_times_stand_beside_the_papers(tmp_path: Path) -> None:
    file = write_text(tmp_path / "tiny.txt")
    run(tiny(file), tmp_path / "runs" / "one", ["valid", "times"])
    timed = json.loads((tmp_path / "runs" / "one" / "times.json").read_text())
    assert timed["normalized_seconds"] > 0 and timed["unnormalized_seconds"] > 0 and timed["threads"] == 1
    (mine,) = (t for t in write_report(tmp_path / "runs", tmp_path / "r.md") if "Run-times" in t.title)
    paper, missing, *_, ours = mine.rows
    assert paper[-3:] == ["9.0", "8.0", "1.12"] and "not run" in missing[3]
    assert ours[0] == "tiny" and float(ours[-1]) > 0
    assert ours[2] == f"{timed['words']:,}"


def test_what_a_training_step_costs_stands_in_the_menu_only_if_every_row_has_it(tmp_path: Path) -> None:
    file = write_text(tmp_path / "tiny.txt")
    for name in ("softmax", "nce", "ranking", "classes"):
        run(tiny(file, name=name), tmp_path / "runs" / name, ["test"])
    (clock,) = (t for t in write_report(tmp_path / "runs", tmp_path / "r.md") if "Menu" in t.title)
    assert "by the clock" in clock.notes[0]
    for name in ("softmax", "nce", "ranking", "classes"):
        made = run(tiny(file, name=name), tmp_path / "runs" / name, ["test", "cost"])
    cost = json.loads(made.file("cost.json").read_text())
    windows = Windows(open_corpus(made.recipe.data)["train"], made.recipe.training.batch, made.recipe.training.steps)
    assert cost["steps_per_epoch"] == len(windows) and 0 < cost["step_seconds"] < 1 and cost["megabytes"] < 500
    (steps,) = (t for t in write_report(tmp_path / "runs", tmp_path / "r.md") if "Menu" in t.title)
    assert "step `cost`" in steps.notes[0]
    row = next(row for row in steps.rows if row[0] == "class softmax")
    assert row[steps.head.index("s per epoch")] == f"{cost['step_seconds'] * len(windows):.0f}"


def test_runs_of_one_name_in_two_places_stay_apart(tmp_path: Path) -> None:
    file = write_text(tmp_path / "tiny.txt")
    for place, epochs in (("a", 1), ("b", 2)):
        recipe = tiny(file)
        run(
            replace(recipe, training=replace(recipe.training, epochs=epochs)),
            tmp_path / "runs" / place / "c$d_{$",
            ["valid"],
        )
    found = collect(tmp_path / "runs")
    assert {name: len(lines) for name, lines in found.histories.items()} == {"a/c$d_{$": 1, "b/c$d_{$": 2}
    assert {r.run for r in found.records} == set(found.histories)
    write_report(tmp_path / "runs", tmp_path / "r.html")  # a dollar in a name is no formula


def test_two_models_of_one_text_are_compared_word_by_word(tmp_path: Path) -> None:
    file = write_text(tmp_path / "tiny.txt")
    for name in ("nce", "softmax"):
        run(tiny(file, name=name), tmp_path / "runs" / name, ["valid"])
    (found,) = (t for t in write_report(tmp_path / "runs", tmp_path / "r.md") if t.title.startswith("Differences"))
    assert found.title.startswith("Differences from NCE-LM") and [row[0] for row in found.rows] == ["SM-LM"]
    (row,) = found.rows
    ours, theirs = (
        json.loads((tmp_path / "runs" / n / "valid.json").read_text())["perplexity"] for n in ("softmax", "nce")
    )
    assert row[2] == f"{100 * (ours / theirs - 1):+.1f} %" and row[4] in ("yes", "no")

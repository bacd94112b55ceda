"""A study answers its own question: a column for each factor, a pivot and differences along each, and a CSV with them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from selfnorm.config.recipe import CriterionSettings, Data, Model, Recipe, Training
from selfnorm.config.signature import signature
from selfnorm.config.toml import write_recipe
from selfnorm.evaluation.measurement import Measurement
from selfnorm.evaluation.statistics import block_sums, numbers
from selfnorm.report.charts.factors import along
from selfnorm.report.collect import collect
from selfnorm.report.factors import Factors, studies
from selfnorm.report.page import write_report
from selfnorm.report.study_tables import factor_differences, factor_table, pivots
from selfnorm.report.tidy import tidy
from selfnorm.studies.plan import about, note_study

GRID = """title = "Does dropout matter?"
[[grid]]
"criterion.name" = ["nce", "softmax"]
"model.dropout" = [0.0, 0.5]
"""


def write_run(folder: Path, recipe: Recipe, worse: float) -> None:
    rng = np.random.default_rng(0)
    log_z, nll = rng.normal(0, 0.1 + worse, 4000), rng.normal(5 + worse, 1, 4000)
    sums = block_sums(log_z, nll, rng.normal(4, 1, 4000))
    line = signature(recipe, "test")
    measured = Measurement(line, words=4000, seconds=1, seed=1, blocks=sums.tolist(), **numbers(sums))
    measured.write(folder / "test.json")
    write_recipe(folder / "recipe.toml", recipe)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.toml").write_text(GRID)
    for name, extra in (("nce", 0.0), ("softmax", 0.3)):
        for dropout, worse in ((0.0, 0.2), (0.5, 0.0)):
            recipe = Recipe(
                model=Model(dropout=dropout),
                criterion=CriterionSettings(name=name, alpha=0.0, gamma=1.0),
                training=Training(epochs=3),
            )
            write_run(tmp_path / "mine" / f"{name}{dropout:g}", recipe, worse + extra)
    note_study(tmp_path / "mine", about(str(tmp_path / "s.toml")))
    return tmp_path / "mine"


@pytest.fixture
def study(folder: Path) -> Factors:
    (found,) = studies(collect(folder), "mine")
    return found


def test_the_title_and_the_factors_of_the_grid_are_used(study: Factors) -> None:
    assert study.title == "Does dropout matter?" and study.names == ["criterion.name", "model.dropout"]
    table = factor_table(study)
    assert table.head[:2] == study.names and len(table.rows) == 4
    assert {tuple(row[:2]) for row in table.rows} == {
        ("nce", "0"),
        ("nce", "0.5"),
        ("softmax", "0"),
        ("softmax", "0.5"),
    }


def test_a_pivot_sets_the_values_of_a_factor_side_by_side(study: Factors) -> None:
    perplexity, sigma = pivots(study, "model.dropout")
    assert perplexity.head == ["model.dropout", "criterion.name = nce", "criterion.name = softmax"]
    assert [row[0] for row in perplexity.rows] == ["0", "0.5"] and "sigma_z" in sigma.title
    found = {(row[0], row[1]): row for row in factor_table(study).rows}
    assert perplexity.rows[0][1] == found["nce", "0"][2]


def test_differences_are_taken_from_the_default_and_have_intervals(study: Factors) -> None:
    (table,) = factor_differences(study, "model.dropout")
    rows = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    assert [(row["criterion.name"], row["model.dropout from"], row["to"]) for row in rows] == [
        ("nce", "0.5", "0"),
        ("softmax", "0.5", "0"),
    ]
    assert rows[0]["perplexity diff"] == "+22.1 %" and rows[0]["perplexity real"] == "yes", "exp(0.2) is 1.221"
    low, high = rows[0]["perplexity 95 %"].split(" to ")
    assert float(low) <= 22.1 <= float(high)


def test_a_figure_for_each_factor_has_every_run(study: Factors) -> None:
    for factor in study.varied():
        figure = along(study, factor)
        assert figure is not None and factor in figure.alt
        assert len(figure.panels[0]["data"]["values"]) == 4


def test_the_csv_has_a_column_for_each_factor(folder: Path) -> None:
    collected = collect(folder)
    rows = list(csv.DictReader(io.StringIO(tidy(collected.records, studies(collected, "mine")))))
    assert {(row["criterion.name"], row["model.dropout"]) for row in rows} >= {("nce", "0"), ("softmax", "0.5")}


def test_two_studies_in_one_folder_share_their_title_and_factors(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('title = "And d?"\n[[grid]]\n"model.d" = [100, 200]\n')
    note_study(folder, about(str(tmp_path / "t.toml")))
    (found,) = studies(collect(folder), "mine")
    assert found.title == "Does dropout matter?; And d?" and found.names[-1] == "model.d"


def test_runs_that_differ_in_something_beside_the_grid_are_not_compared(folder: Path) -> None:
    """A study that is run again with another learning rate: each rate is compared with itself."""
    for name, worse in (("nce", 0.6), ("softmax", 0.9)):
        recipe = Recipe(
            model=Model(dropout=0.5),
            criterion=CriterionSettings(name=name, alpha=0.0, gamma=1.0),
            training=Training(epochs=3, learning_rate=0.1, threads=2, device="cpu"),
        )
        write_run(folder / f"{name}-slow", recipe, worse)
    (study,) = studies(collect(folder), "mine")
    assert study.varied() == ["criterion.name", "model.dropout", "training.learning_rate"]
    pairs = [{r.run for r in runs.values()} for runs in study.groups("criterion.name").values()]
    assert sorted(map(sorted, pairs)) == [["nce-slow", "softmax-slow"], ["nce0", "softmax0"], ["nce0.5", "softmax0.5"]]


def test_texts_of_one_name_are_told_apart(folder: Path, tmp_path: Path) -> None:
    for place, (name, print_) in enumerate((("a", "11aa22"), ("b", "33bb44"), ("c", "11aa22"))):
        recipe = Recipe(data=Data(name="mine"), training=Training(epochs=3, seed=place))
        write_run(tmp_path / "texts" / name, recipe, 0.1 * place)
        (tmp_path / "texts" / name / "env.json").write_text(f'{{"text": "{print_}"}}')
    found = {r.run: r.text for r in collect(tmp_path / "texts").records}
    assert found == {"a": "mine [11aa22]", "b": "mine [33bb44]", "c": "mine [11aa22]"}
    (study,) = studies(collect(tmp_path / "texts"), "texts")
    assert sorted(sorted(runs) for runs in study.groups("training.seed").values()) == [["0", "2"]]
    (tmp_path / "texts" / "b" / "env.json").write_text('{"text": "11aa22"}')
    assert {r.text for r in collect(tmp_path / "texts").records} == {"mine"}


def test_names_in_any_script_and_the_largest_seed_can_be_read_again(tmp_path: Path) -> None:
    recipe = Recipe(data=Data(name="Übung-λόγος"), training=Training(seed=2**63 - 1))
    write_run(tmp_path / "run", recipe, 0.0)
    (record,) = collect(tmp_path).records
    assert record.text == "Übung-λόγος" and record.parts["seed"] == str(2**63 - 1)


def test_a_title_is_text_in_markdown_too(folder: Path) -> None:
    known = json.loads((folder / "study.json").read_text())
    (folder / "study.json").write_text(json.dumps({**known, "title": "my | <b>grid</b>"}))
    write_report(folder, folder / "r.md")
    assert "<b>" not in (folder / "r.md").read_text()


def test_without_a_known_grid_the_settings_that_differ_are_the_factors(folder: Path) -> None:
    (folder / "study.json").unlink()
    (found,) = studies(collect(folder), "mine")
    assert found.names == ["model.dropout", "criterion.name"] and found.title == "mine"


def test_a_built_in_study_takes_in_runs_that_another_folder_holds() -> None:
    results = Path(__file__).parent.parent.parent / "results"
    d30 = next(s for s in studies(collect(results), "results") if s.name == "d30")
    assert any(r.run.startswith("paper/") for r in d30.records)
    assert d30.defaults["training.learning_rate"] == "1"


def test_the_criterions_own_penalty_is_one_value(study: Factors) -> None:
    record = study.records[0]
    own = replace(
        study,
        settings={
            **study.settings,
            record.run: {**study.settings[record.run], "criterion.name": "devlin", "criterion.alpha": 1.0},
        },
    )
    assert own.value(record, "criterion.alpha") == "default (1)" and own.key(record, "criterion.alpha") == "default"

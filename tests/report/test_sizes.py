"""sigma_z by size: a row for each model, a column for each d, and whether it grows beyond the intervals."""

from __future__ import annotations

from dataclasses import replace

from selfnorm.config.recipe import CriterionSettings, Data, Model, Recipe, Training
from selfnorm.config.signature import parse_signature, signature
from selfnorm.evaluation.measurement import Measurement
from selfnorm.report.collect import Record
from selfnorm.report.sizes import size_tables


def record(
    d: int, low: float, high: float, criterion: str = "nce", seed: int = 1, data: str = "ptb", encoder: str = "lstm",
    **training: object,
) -> Record:  # fmt: skip
    recipe = Recipe(
        data=Data(name=data),
        model=Model(d=d, encoder=encoder),
        criterion=CriterionSettings(name=criterion, alpha=0.0, gamma=1.0),
        training=replace(Training(seed=seed), **training),  # type: ignore[arg-type]
    )
    line = signature(recipe, "valid")
    measured = Measurement(
        line, words=10, seconds=1, seed=seed, mu_z=0, sigma_z=(low + high) / 2, perplexity=9, u_perplexity=9, correlation=0,
        intervals={"sigma_z": (low, high)},
    )  # fmt: skip
    return Record(f"{criterion}{d}-{seed}", measured, parse_signature(line))


def test_a_step_counts_as_growth_only_where_the_intervals_are_apart() -> None:
    (table,) = size_tables([record(30, 0.1, 0.2), record(100, 0.15, 0.25), record(300, 0.3, 0.4)])
    assert table.head == ["model", "k", "epochs", "d = 30", "d = 100", "d = 300", "grows"]
    (row,) = table.rows
    assert row[0] == "NCE-LM" and row[-1] == "1 of 2" and row[3] == "0.150 (0.100 to 0.200)"


def test_a_model_of_one_size_has_no_row() -> None:
    assert size_tables([record(30, 0.1, 0.2), record(100, 0.1, 0.2, criterion="softmax")]) == []


def test_precision_and_seed_do_not_make_another_model_and_every_run_must_grow() -> None:
    runs = [record(30, 0.1, 0.2), record(30, 0.1, 0.35, seed=2), record(100, 0.3, 0.4, precision="bf16")]
    (table,) = size_tables(runs)
    assert [row[-1] for row in table.rows] == ["0 of 1"] and table.rows[0][3].count("to") == 2


def test_an_encoder_makes_another_model_whatever_the_text_is_called() -> None:
    runs = [record(d, d / 100, d / 90, data="my-gru2-notes", encoder=e) for d in (10, 20) for e in ("lstm", "gru")]
    (table,) = size_tables(runs)
    assert [(row[0], row[-1]) for row in table.rows] == [("NCE-LM", "1 of 1"), ("NCE-LM, gru2", "1 of 1")]


def test_another_learning_rate_makes_another_model() -> None:
    assert size_tables([record(30, 0.1, 0.2), record(100, 0.3, 0.4, learning_rate=0.5)]) == []

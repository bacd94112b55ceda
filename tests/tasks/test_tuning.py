"""Tuning: the same weights whatever the units, plateaus before dips, intervals, temperatures."""

from __future__ import annotations

import numpy as np
import pytest

from selfnorm.tasks.confidence import fit_temperature, posteriors, reliability, word_confidences
from selfnorm.tasks.rescoring import Table, Weights
from selfnorm.tasks.tuning import Development, _best_of, tune, tune_on, word_errors
from selfnorm.tasks.wer import ErrorRate, interval


def made(lists: int = 60, seed: int = 0, scale: float = 1.0) -> tuple[list[Table], list[np.ndarray], int]:
    """Hypotheses whose errors lower both scores; neither score alone is the best guide."""
    rng = np.random.default_rng(seed)
    tables, counts = [], []
    for _ in range(lists):
        errors = rng.integers(0, 6, 8)
        score, lm = -errors * 2 + rng.normal(0, 4, 8), -errors + rng.normal(0, 2, 8)
        words = 10 + rng.integers(-2, 3, 8)
        tables.append(Table(np.column_stack([scale * score, np.zeros(8), words, lm])))
        counts.append(errors)
    return tables, counts, 10 * lists


@pytest.mark.parametrize("scale", [10, 0.01, 12.9])
def test_scores_in_other_units_tune_to_the_same_choice(scale: float) -> None:
    chosen = []
    for factor in (1.0, scale):
        tables, counts, words = made(scale=factor)
        loss = word_errors(counts, words)
        development = Development(tables)
        weights = tune(development, lambda picks, loss=loss: loss(picks, np.arange(60)))
        chosen.append((weights.lm / factor, development.picks(weights).tolist()))
    assert chosen[0][0] == pytest.approx(chosen[1][0], rel=1e-6) and chosen[0][1] == chosen[1][1]


def test_tuned_weights_beat_both_scores_alone_and_hold_on_other_lists() -> None:
    tables, counts, words = made(200)
    loss = word_errors(counts, words)
    found = tune_on(tables, loss)
    every = np.arange(200)
    development = Development(tables)
    assert found.loss < min(loss(development.picks(w), every) for w in (Weights(0.0), Weights(1e9)))
    assert found.cross_validated is not None and found.loss <= found.cross_validated < 1.3 * found.loss
    others, errors, n = made(200, seed=1)
    assert word_errors(errors, n)(Development(others).picks(found.weights), every) < 1.3 * found.loss


def test_a_plateau_wins_over_a_narrow_dip() -> None:
    axis = np.arange(9.0)
    valley = np.array([9.0, 9, 1, 9, 9, 2, 2, 2, 9])  # a dip at 2, a plateau from 5 to 7
    assert _best_of([axis, np.zeros(1), np.zeros(1)], lambda point: float(valley[int(point[0])]))[0] == 6


def test_lists_of_different_lengths_and_without_scores_are_tuned() -> None:
    tables = [Table(np.array([[0.0, 0, 3, -5.0], [0, 0, 2, -4]])), Table(np.array([[0.0, 0, 1, -1.0]]))]
    found = tune_on(tables, word_errors([np.array([2, 0]), np.array([1])], 4))
    assert found.loss == pytest.approx(1 / 4) and found.cross_validated is None


def test_bootstrap_intervals_cover_the_rate_and_shrink() -> None:
    rng = np.random.default_rng(0)
    few, many = rng.binomial(10, 0.2, 50), rng.binomial(10, 0.2, 5000)
    narrow = interval(many, np.full(5000, 10))
    wide = interval(few, np.full(50, 10))
    assert narrow[0] < 0.2 < narrow[1] and narrow[1] - narrow[0] < 0.2 * (wide[1] - wide[0])
    rate = ErrorRate()
    for chosen, before in ((1, 2), (0, 1), (3, 3)):
        rate.add(chosen, before, 10)
    facts = rate.facts()
    assert facts["wer"] == pytest.approx(4 / 30) and facts["wer_without_lm"] == pytest.approx(6 / 30)
    assert facts["wer_change_interval"][1] <= 0  # type: ignore[index]


def test_the_temperature_makes_confidences_come_true() -> None:
    rng = np.random.default_rng(0)
    tables, counts, sure, right = [], [], [], []
    for _ in range(2000):
        totals = rng.normal(0, 2, 5)
        truth = rng.choice(
            5, p=posteriors(totals)
        )  # these totals are log probabilities; below they are 7 times too large
        tables.append(Table(np.column_stack([7 * totals, np.zeros((5, 3))])))
        counts.append((np.arange(5) != truth).astype(np.int64))
    temperature = fit_temperature(tables, counts, Weights(0.0))
    assert temperature == pytest.approx(7, rel=0.1)
    for table, errors in zip(tables, counts, strict=True):
        shares = posteriors(table.rows[:, 0], temperature)
        sure.append(shares.max())
        right.append(errors[shares.argmax()] == 0)
    curve = reliability(np.array(sure), np.array(right))
    assert sum(row["lists"] for row in curve) == 2000
    assert all(abs(row["confidence"] - row["right"]) < 0.08 for row in curve if row["lists"] > 100)


def test_a_word_is_as_sure_as_the_hypotheses_that_have_it_there() -> None:
    sure = word_confidences([["the", "cat", "sat"], ["the", "cat"], ["a", "cat", "sat"]], np.array([0.5, 0.3, 0.2]), 0)
    assert sure.tolist() == pytest.approx([0.8, 1.0, 0.7])

"""Measuring against a slow oracle, one word at a time in float64."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from selfnorm.calibration.base import Budget
from selfnorm.config.recipe import Model
from selfnorm.data.windows import evaluation_windows
from selfnorm.evaluation.measure import contexts, measure, per_word
from selfnorm.evaluation.statistics import block_sums, differences, intervals, merged
from selfnorm.nn import log_z as one_pass
from selfnorm.nn.model import LanguageModel, build
from selfnorm.runs import evaluate
from selfnorm.runs.calibrate import calibrate_run
from selfnorm.runs.evaluate import measure_split
from selfnorm.runs.folder import Run
from selfnorm.runs.loading import load_model
from selfnorm.runs.opening import open_with_text
from selfnorm.studies.experiment import run_experiment as run

from ..conftest import tiny


def slow_words(model: LanguageModel, ids: np.ndarray) -> list[tuple[float, float, float]]:
    """log Z, -log p and entropy of every word but the first, in one stream, the obvious way."""
    state, rows = None, []
    with torch.no_grad():
        for before, after in itertools.pairwise(ids):
            c, state = model.contexts(torch.tensor([[int(before)]]), state)
            m = model.output.all_m(c[0]).double()[0]
            log_z = float(m.logsumexp(0))
            p = (m - log_z).exp()
            rows.append((log_z, log_z - float(m[int(after)]), float(-(p * (m - log_z)).sum())))
    return rows


@pytest.fixture
def model() -> LanguageModel:
    return build(Model(d=6, init=0.8), 30, torch.Generator().manual_seed(0)).requires_grad_(False)


def test_every_word_but_the_first_is_counted_once(model: LanguageModel) -> None:
    for length in (2, 3, 63, 64, 65, 700, 5000):
        ids = np.arange(length) % 30
        counted = sum(int(w.counted.sum()) for w in evaluation_windows(ids))
        assert counted == length - 1


def test_numbers_are_those_of_the_slow_oracle(model: LanguageModel) -> None:
    ids = np.random.default_rng(0).integers(30, size=400)
    log_z, nll, h = np.array(slow_words(model, ids)).T
    found = measure(model, ids)
    assert found.words == 399
    assert found.mu_z == pytest.approx(log_z.mean(), abs=1e-5)
    assert found.sigma_z == pytest.approx(log_z.std(), abs=1e-5)
    assert found.perplexity == pytest.approx(math.exp(nll.mean()), rel=1e-5)
    assert found.u_perplexity == pytest.approx(math.exp((nll - log_z).mean()), rel=1e-5)
    assert found.correlation == pytest.approx(np.corrcoef(h, log_z)[0, 1], abs=1e-4)


def test_streams_of_an_encoder_that_reaches_far_back_start_early_enough() -> None:
    settings = Model(d=8, layers=3, heads=2, encoder="transformer", memory=100, init=0.8)
    far = build(settings, 30, torch.Generator().manual_seed(0)).requires_grad_(False)
    for parameter in far.encoder.parameters():  # fresh weights are too small for the past to matter
        parameter.mul_(4)
    ids = np.random.default_rng(0).integers(30, size=6000)
    one = np.concatenate([far.output.log_z(c).numpy() for _, c, _ in contexts(far, ids, streams=1)])
    assert per_word(far, ids).log_z == pytest.approx(one, abs=1e-4)


def test_parallel_streams_with_a_warm_up_agree_with_one_stream(model: LanguageModel) -> None:
    ids = np.random.default_rng(0).integers(30, size=6000)
    log_z = np.array(slow_words(model, ids))[:, 0]
    assert np.allclose(per_word(model, ids).log_z, log_z, atol=1e-4)


def test_memory_is_bounded_by_the_slice(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = np.random.default_rng(0).integers(30, size=900)
    whole = measure(model, ids)
    monkeypatch.setattr(one_pass, "SLICE", 7 * 4 * 64)  # a few words at a time
    held, scores = [], one_pass.scores
    monkeypatch.setattr(one_pass, "scores", lambda *given: held.append(scores(*given)) or held[-1])
    assert measure(model, ids).sigma_z == pytest.approx(whole.sigma_z, abs=1e-6)
    assert held and all(m.numel() <= 7 * 64 or m.shape[1] == 1 for m in held), "a slice at a time, or a single word"


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    hits = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        drift = np.repeat(rng.normal(0, 0.3, 40), 500)  # neighbours are alike
        log_z = drift + rng.normal(0, 0.1, len(drift))
        low, high = intervals(block_sums(log_z, log_z * 0 + 1, log_z * 0), resamples=400)["mu_z"]
        hits += low <= 0 <= high
    assert hits >= 50


def hard_passages(seed: int, gain: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Block sums of two models on one text with hard and easy passages; the second is worse by `gain` nats a word."""
    rng = np.random.default_rng(seed)
    hard = np.repeat(rng.normal(5, 1.0, 60), 500)
    zero = np.zeros_like(hard)
    one, two = (hard + extra + rng.normal(0, 0.5, len(hard)) for extra in (0.0, gain))
    return block_sums(zero, one, zero), block_sums(zero, two, zero)


def test_a_paired_difference_sees_what_two_intervals_hide() -> None:
    one, two = hard_passages(0, gain=0.02)
    apart = [intervals(sums)["perplexity"] for sums in (one, two)]
    assert apart[0][1] > apart[1][0]  # each alone is too uncertain to tell them apart
    gap, low, high = differences(two, one)["perplexity"]
    assert 0 < low < gap < high and gap == pytest.approx(np.expm1(0.02), abs=0.01)


def test_equal_models_are_called_different_about_as_rarely_as_they_should_be() -> None:
    called = 0
    for seed in range(60):
        _, low, high = differences(*hard_passages(seed), resamples=400)["perplexity"]
        called += not low <= 0 <= high
    assert called <= 9


def test_merging_blocks_loses_no_word() -> None:
    sums = block_sums(np.arange(260_123.0), np.ones(260_123), np.ones(260_123))
    few = merged(sums)
    assert len(few) <= 200 < len(sums) and np.allclose(few.sum(axis=0), sums.sum(axis=0))


def test_a_short_text_still_has_an_interval() -> None:
    log_z = np.random.default_rng(0).normal(size=200)
    low, high = intervals(block_sums(log_z, log_z + 5, log_z))["sigma_z"]
    assert low < log_z.std() < high


def test_shift_brings_held_out_mu_z_to_zero_and_leaves_perplexity(text_file: Path, tmp_path: Path) -> None:
    made = run(tiny(text_file, name="softmax"), tmp_path / "run")
    _, corpus = open_with_text(made.folder)
    raw, held_out = (measure_split(made, corpus, split, "none") for split in ("valid", "test"))
    calibrate_run(made, corpus, "shift")
    shifted, test = (measure_split(made, corpus, split) for split in ("valid", "test"))
    assert shifted.mu_z == pytest.approx(0, abs=1e-4)
    assert test.mu_z == pytest.approx(held_out.mu_z - raw.mu_z, abs=1e-4) and abs(test.mu_z) < abs(held_out.mu_z)
    assert shifted.perplexity == pytest.approx(raw.perplexity, rel=1e-5)
    assert "|calibration:shift|" in shifted.signature and "|calibration:none|" in raw.signature
    assert (made.folder / "valid.shift.json").exists()


def test_a_run_that_cannot_be_written_to_is_measured_all_the_same(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = run(tiny(text_file), tmp_path / "run")
    _, corpus = open_with_text(made.folder)

    def refused(run: Run) -> None:
        raise PermissionError(13, "Permission denied", str(run.folder))

    monkeypatch.setattr(evaluate, "changing", refused)
    assert measure_split(made, corpus, "test").perplexity > 1
    assert "Not stored" in caplog.text and not made.file("test.json").exists()


@pytest.mark.parametrize("squash", [False, True])
def test_each_calibration_is_better_than_the_one_before(text_file: Path, tmp_path: Path, squash: bool) -> None:
    from dataclasses import replace

    recipe = tiny(text_file, name="softmax")
    recipe = replace(recipe, model=replace(recipe.model, squash=squash), training=replace(recipe.training, epochs=6))
    made = run(recipe, tmp_path / "run")
    _, corpus = open_with_text(made.folder)
    raw = measure_split(made, corpus, "test", "none")
    sigmas, budget = [raw.sigma_z], Budget(passes=60, hidden=(32,))
    for kind in ("affine", "mlp"):
        calibrate_run(made, corpus, kind, budget)
        found = measure_split(made, corpus, "test", kind)
        assert found.perplexity == pytest.approx(raw.perplexity, rel=1e-3)
        sigmas.append(found.sigma_z)
    assert sigmas[0] > sigmas[1] > sigmas[2]
    again = load_model(made)  # the last one is in use
    assert again.output.normalizer is not None


def test_theorems_hold_for_every_context_of_a_trained_model(tmp_path: Path) -> None:
    from selfnorm.config.toml import change, read_recipe

    recipe = read_recipe(None, ["data.name=synthetic", "data.max_words=20000", "model.d=10", "training.epochs=1"])
    made = run(recipe, tmp_path / "run")
    from selfnorm.evaluation.measurement import read_measurement

    theory = read_measurement(made.folder / "valid.json").theory
    assert theory["theorem_1_holds"] == theory["contexts"] == 20_000
    assert theory["theorem_2_holds"] and theory["mean_epsilon"] > 0
    cut = run(change(recipe, ["data.min_count=1000"]), tmp_path / "cut")
    assert not read_measurement(cut.folder / "valid.json").theory, "with words gone the truth is not known"

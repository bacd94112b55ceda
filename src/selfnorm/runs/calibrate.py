"""Calibrate a run: fit on its training text, measure on its validation text, store in its folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from selfnorm._util.console import progress
from selfnorm._util.devices import device_of, make_rng
from selfnorm._util.errors import UserError
from selfnorm.calibration.base import Budget, Contexts, Task
from selfnorm.calibration.choose import Candidate, choose
from selfnorm.data.corpus import Corpus
from selfnorm.data.sources.files import lines_of, read_bytes
from selfnorm.evaluation.measure import contexts, per_word, validate
from selfnorm.nn.model import LanguageModel
from selfnorm.nn.normalizers import Normalizer
from selfnorm.registry.criteria import CRITERIA
from selfnorm.runs.calibrations import apply, calibration_of, save_calibration
from selfnorm.runs.folder import Run, Stamp, stamp
from selfnorm.runs.loading import load_model

log = logging.getLogger("selfnorm")


def calibrate_run(
    run: Run, corpus: Corpus, kind: str, budget: Budget | None = None, use: bool = True
) -> dict[str, Any]:
    """Fit a calibration, store it and, if wanted, put it in use; returns what calibration.json says of it."""
    how, start = calibration_of(kind), time.monotonic()
    weights, model, task = _task(run, corpus, budget)
    with progress(f"calibrate {kind}", how.work(task.budget, task.budget.contexts) or None, "contexts") as advance:
        normalizer, used = how.fit(replace(task, advance=advance))
    if "passes" in how.options and used.passes < task.budget.passes:
        log.warning("Time was up after %s contexts and %g passes.", f"{used.contexts:,}", used.passes)
    facts = _facts(model, normalizer, used, kind, corpus["valid"], time.monotonic() - start)
    save_calibration(run, kind, normalizer, facts, weights, use)
    return facts


def calibrate_by_budget(
    run: Run, corpus: Corpus, cost: float | None, sigma: float | None, budget: Budget | None = None
) -> tuple[str, dict[str, Any]]:
    """Try kinds and sizes on held-out contexts, store the best for the budget and put it in use; returns its kind and facts."""
    start = time.monotonic()
    weights, model, task = _task(run, corpus, budget)

    def tried(one: Candidate) -> None:
        assert one.left is not None
        log.info("%-36s cost %.4f  sigma_z %.4f  mean %+.4f", one.describe(), one.cost, one.left.sigma_z, one.left.mu_z)

    one, normalizer, frontier = choose(task, cost, sigma, tried)
    facts = _facts(model, normalizer, one.budget, one.kind, corpus["valid"], time.monotonic() - start)
    facts["frontier"] = [{"kind": c.describe(), "cost": c.cost, **asdict(c)["left"]} for c in frontier]
    save_calibration(run, one.kind, normalizer, facts, weights)
    return one.kind, facts


def _task(run: Run, corpus: Corpus, budget: Budget | None) -> tuple[Stamp, LanguageModel, Task]:
    """The stamp of the run's weights, its raw model, and what a calibration of it is fitted with."""
    if CRITERIA.find(run.recipe.criterion.name).pins == "normalized":
        raise UserError(f"{run.folder} is normalized by construction: log Z is 0 and there is nothing to calibrate.")
    weights, model = stamp(run), load_model(run, calibration="none")
    budget = budget or Budget()
    budget = replace(budget, contexts=min(budget.contexts, len(corpus["train"]) - 1))
    train = contexts_of(model, corpus["train"], streams=64, T=32)
    rng = make_rng(run.recipe.training.seed, device_of(model))
    return weights, model, Task(model.output, train, contexts_of(model, corpus["valid"]), budget, rng=rng)


def _facts(
    model: LanguageModel, normalizer: Normalizer, used: Budget, kind: str, valid: np.ndarray, seconds: float
) -> dict[str, Any]:
    """Numbers on the validation text before and after, what it costs, and how its errors add up over contexts."""
    options = calibration_of(kind).options
    spent = {name: value for name, value in asdict(used).items() if name in options}
    cost = normalizer.multiply_adds()
    calibrated = apply(model, normalizer)
    return {
        "valid_before": validate(model, valid),
        "valid_after": validate(calibrated, valid),
        "seconds": round(seconds, 1),
        **spent,
        "multiply_adds": cost,
        "share_of_exact": cost / (model.output.V * model.output.d),
        "residual_sums": residual_sums(per_word(calibrated, valid, entropy=False).log_z),
    }


def residual_sums(log_z: np.ndarray) -> dict[str, list[float]]:
    """Quantiles 0.9, 0.99 and 0.999 of |Σ log Z| over n consecutive contexts: how far a sum of scores may be off."""
    table = {}
    for n in (1, 2, 4, 8, 16, 32, 64):
        sums = np.abs(np.convolve(log_z, np.ones(n), "valid")) if len(log_z) >= n else np.zeros(1)
        table[str(n)] = [float(q) for q in np.quantile(sums, [0.9, 0.99, 0.999])]
    return table


def measure_other_text(run: Run, path: Path, kind: str) -> dict[str, dict[str, float]]:
    """What a stored calibration leaves on another text: mu_z, sigma_z, perplexity before and after."""
    ids = [
        i
        for line in lines_of(read_bytes(path), str(path))()
        for i in (*run.vocab.ids(run.tokenize(line)), run.vocab.eos)
    ]
    text = np.asarray(ids)
    return {
        "before": validate(load_model(run, calibration="none"), text),
        "after": validate(load_model(run, calibration=kind), text),
    }


def contexts_of(model: LanguageModel, ids: np.ndarray, **how: int) -> Contexts:
    """The context vectors of a text, dropout off and the state carried."""

    def pieces(most: int) -> Iterator[Tensor]:
        for _, c, _ in contexts(model, ids, **how):
            yield c[:most]
            most -= len(c)
            if most <= 0:
                return

    return pieces

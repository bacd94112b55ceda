"""Calibrate a run: fit on its training text, measure on its validation text, store in its folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfnorm._util.console import progress
from selfnorm._util.errors import UserError
from selfnorm.calibration.base import Budget, Contexts, Task
from selfnorm.data.corpus import Corpus
from selfnorm.evaluation.measure import contexts, validate
from selfnorm.nn.model import LanguageModel
from selfnorm.registry.criteria import CRITERIA
from selfnorm.runs.calibrations import apply, calibration_of, save_calibration
from selfnorm.runs.folder import Run, refuse_replaced, stamp
from selfnorm.runs.loading import load_model

log = logging.getLogger("selfnorm")


def calibrate_run(
    run: Run, corpus: Corpus, kind: str, budget: Budget | None = None, use: bool = True
) -> dict[str, Any]:
    """Fit a calibration, store it and, if wanted, put it in use; returns what calibration.json says of it."""
    if CRITERIA.find(run.recipe.criterion.name).pins == "normalized":
        raise UserError(f"{run.folder} is normalized by construction: log Z is 0 and there is nothing to calibrate.")
    how, start = calibration_of(kind), time.monotonic()
    weights, model = stamp(run), load_model(run, calibration="none")
    budget = budget or Budget()
    budget = replace(budget, contexts=min(budget.contexts, len(corpus["train"]) - 1))
    with progress(f"calibrate {kind}", how.work(budget, budget.contexts) or None, "contexts") as advance:
        task = Task(
            model.output,
            contexts_of(model, corpus["train"], streams=64, T=32),
            contexts_of(model, corpus["valid"]),
            budget,
            torch.from_numpy(np.asarray(run.vocab.counts)),
            torch.Generator().manual_seed(run.recipe.training.seed),
            advance,
            start,
        )
        normalizer, used = how.fit(task)
    if "passes" in how.options and used.passes < budget.passes:
        log.warning(
            "Time was up after %s contexts and %g of %g passes.", f"{used.contexts:,}", used.passes, budget.passes
        )
    seconds, before = time.monotonic() - start, validate(model, corpus["valid"])
    after = validate(apply(model, normalizer), corpus["valid"])
    spent = {name: value for name, value in asdict(used).items() if name in how.options}
    facts = {"valid_before": before, "valid_after": after, "seconds": round(seconds, 1), **spent}
    facts |= {
        "multiply_adds": normalizer.multiply_adds(),
        "share_of_exact": normalizer.multiply_adds() / (model.output.V * model.output.d),
    }
    refuse_replaced(run, weights)
    save_calibration(run, kind, normalizer, facts, use)
    return facts


def contexts_of(model: LanguageModel, ids: np.ndarray, **how: int) -> Contexts:
    """The context vectors of a text, dropout off and the state carried."""

    def pieces(most: int) -> Iterator[Tensor]:
        for _, c, _ in contexts(model, ids, **how):
            yield c[:most]
            most -= len(c)
            if most <= 0:
                return

    return pieces

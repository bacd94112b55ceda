"""Train from a recipe, then calibrate and measure: what a study does for each of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from selfnorm._util.errors import UserError
from selfnorm.config.recipe import Recipe
from selfnorm.registry import load
from selfnorm.registry.criteria import CRITERIA
from selfnorm.registry.steps import STEPS, check_step
from selfnorm.runs.folder import Run
from selfnorm.studies.steps import follow
from selfnorm.training.train import train_run


def run_experiment(recipe: Recipe, folder: Path, then: Sequence[str] = ("valid",)) -> Run:
    """Train, from the start or from where an earlier call was stopped; then make the steps in `then`."""
    for step in then:
        what, kind = check_step(step)
        if kind and CRITERIA.find(recipe.criterion.name).pins == "normalized":
            raise UserError(
                f"step {step}: {recipe.criterion.name} is normalized by construction; nothing to calibrate."
            )
        if STEPS[what].check:
            load(STEPS[what].check)(recipe)  # refused now rather than after hours of training
    return train_run(recipe, folder, lambda run, corpus: follow(run, corpus, then))

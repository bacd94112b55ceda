"""What a run costs: scoring its validation text with and without log Z, and a step of its training, in seconds and memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from selfnorm._util.console import Advance, progress
from selfnorm._util.machine import command_line, environment
from selfnorm._util.memory import megabytes_of
from selfnorm.config.recipe import Recipe
from selfnorm.criteria.build import make_criterion
from selfnorm.data.corpus import Corpus
from selfnorm.data.windows import Windows
from selfnorm.registry.steps import COST, TIMES
from selfnorm.runs.calibrations import signed
from selfnorm.runs.folder import Run
from selfnorm.runs.loading import load_model
from selfnorm.runs.weights import begin
from selfnorm.studies.bench.scoring import time_text
from selfnorm.training.loop import Place, train

TURNS, STEPS, SECONDS = 5, 60, 10.0  # so many turns of so many training steps, fewer where a turn would last longer


def time_scoring(run: Run, corpus: Corpus, step: str = "", kind: str = "none") -> dict[str, Any]:
    """The paper's run-time paragraph for one run: seconds to score the validation text with and without log Z."""
    model, ids = load_model(run, calibration="none"), corpus["valid"]
    with progress("time scoring", 2, "passes") as advance:
        seconds = time_text(model, ids, advance)
    return _result(TIMES, run, corpus, "valid", {"words": len(ids) - 1, **seconds})


def time_training(run: Run, corpus: Corpus, step: str = "", kind: str = "none") -> dict[str, Any]:
    """Seconds of a training step and the memory it holds in addition to the model, on fresh weights and the text's first windows.

    The seconds in a history depend on what else the machine did; these can be measured for many runs in one session.
    Fresh weights, because a step costs the same whatever the weights are.
    """
    steps, per_epoch = _steps(run.recipe, corpus)
    warm = _turn(steps, 5, lambda n: None)
    count = max(3, min(STEPS, round(SECONDS / warm)))
    with progress("time training", (TURNS + 1) * count, "steps") as advance:
        seconds = statistics.median(_turn(steps, count, advance) for _ in range(TURNS))
        memory = megabytes_of(lambda: steps(count, advance))
    about = {"step_seconds": seconds, "steps_per_epoch": per_epoch, "megabytes": memory}
    return _result(COST, run, corpus, "train", about)


def _steps(recipe: Recipe, corpus: Corpus) -> tuple[Callable[[int, Advance], None], int]:
    """What makes the next so many steps of this training, and how many an epoch has."""
    windows = Windows(corpus["train"], recipe.training.batch, recipe.training.steps)
    criterion = make_criterion(recipe.criterion, corpus.counts(), corpus["train"], recipe.model.squash)
    model, rng = begin(recipe, len(corpus.vocab), criterion)
    endless = replace(recipe.training, epochs=10**9, decay=1.0)  # a short text has fewer windows than are timed
    training = train(model, criterion, windows, endless, rng, Place())

    def go(count: int, advance: Advance) -> None:
        for _ in islice(training, count):
            advance(1)

    return go, len(windows)


def _turn(steps: Callable[[int, Advance], None], count: int, advance: Advance) -> float:
    """Seconds of a step, over so many."""
    start = time.perf_counter()
    steps(count, advance)
    return (time.perf_counter() - start) / count


def _result(kind: str, run: Run, corpus: Corpus, split: str, numbers: dict[str, Any]) -> dict[str, Any]:
    facts = {"V": len(run.vocab), "d": run.recipe.model.d, "threads": torch.get_num_threads()}
    named = {"kind_of_result": kind, "signature": signed(run, split, "none"), "data": corpus.name}
    return {**named, **facts, **numbers, "row": {}, **environment(), "command": command_line()}

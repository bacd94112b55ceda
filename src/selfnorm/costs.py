"""What a run costs: scoring its validation text with and without log Z, and a step of its training, in seconds and memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from selfnorm.batches import Windows
from selfnorm.bench.scoring import time_text
from selfnorm.criteria import make_criterion
from selfnorm.memory import megabytes_of
from selfnorm.recipe import Recipe
from selfnorm.results import COST, TIMES, command_line, environment
from selfnorm.runs import Run, begin, load_model, signed
from selfnorm.terminal import Advance, progress
from selfnorm.text import Corpus
from selfnorm.train import Place, train

TURNS, STEPS, SECONDS = 5, 60, 10.0  # so many turns of so many training steps, fewer where a turn would last longer


def time_scoring(made: Run, corpus: Corpus) -> dict[str, Any]:
    """The paper's run-time paragraph for one run: seconds to score the validation text with and without log Z."""
    model, ids = load_model(made, calibration="none"), corpus["valid"]
    with progress("time scoring", 2, "passes") as advance:
        seconds = time_text(model, ids, advance)
    return _result(TIMES, made, corpus, "valid", {"words": len(ids) - 1, **seconds})


def time_training(made: Run, corpus: Corpus) -> dict[str, Any]:
    """Seconds of a training step and the memory it holds beside the model, on fresh weights and the text's first windows.

    A history's own seconds are those of a whole night on a machine that did other things too; these can be taken for many
    runs in one go. Fresh weights, because a step costs the same whatever the weights are.
    """
    steps, per_epoch = _steps(made.recipe, corpus)
    warm = _turn(steps, 5, lambda n: None)
    count = max(3, min(STEPS, round(SECONDS / warm)))
    with progress("time training", (TURNS + 1) * count, "steps") as advance:
        seconds = statistics.median(_turn(steps, count, advance) for _ in range(TURNS))
        memory = megabytes_of(lambda: steps(count, advance))
    about = {"step_seconds": seconds, "steps_per_epoch": per_epoch, "megabytes": memory}
    return _result(COST, made, corpus, "train", about)


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


def _result(kind: str, made: Run, corpus: Corpus, split: str, found: dict[str, Any]) -> dict[str, Any]:
    facts = {"V": len(made.vocab), "d": made.recipe.model.d, "threads": torch.get_num_threads()}
    named = {"kind_of_result": kind, "signature": signed(made, split, "none"), "data": corpus.name}
    return {**named, **facts, **found, "row": {}, **environment(), "command": command_line()}

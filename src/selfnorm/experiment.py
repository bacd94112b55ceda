"""The corridor: a recipe goes in, a run folder comes out. Open this file first."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from selfnorm.batches import Windows
from selfnorm.calibrate import Budget, affine, facts, mlp, shift
from selfnorm.completing import challenge, choose, result
from selfnorm.criteria import Criterion, make_criterion
from selfnorm.errors import Diverged, UserError, nearest
from selfnorm.files import write_json
from selfnorm.measure import measure, validate
from selfnorm.memory import keep_freed_memory, peak_megabytes
from selfnorm.model import LanguageModel
from selfnorm.names import lookup, settle
from selfnorm.recipe import Recipe
from selfnorm.results import Measurement, signature
from selfnorm.runs import (
    Run,
    create,
    forget_measured,
    fresh_model,
    has_calibration,
    load_checkpoint,
    load_model,
    locked,
    save_calibration,
    save_checkpoint,
    save_weights,
)
from selfnorm.terminal import progress, say
from selfnorm.text import Corpus, open_corpus
from selfnorm.theory import check_theorems
from selfnorm.train import Place, learning_rate, train


def run(recipe: Recipe, folder: Path, then: Sequence[str] = ("valid",)) -> Run:
    """Train as the recipe says, from the start or from where an earlier call was stopped; then measure."""
    for step in then:
        what, _, kind = step.partition(".")
        if what not in ("train", "valid", "test", "complete") or kind not in ("", "shift", "affine", "mlp"):
            raise UserError(
                f"--then {step}: expected a split and perhaps a calibration, such as valid, test or test.mlp; or complete."
            )
        if kind and lookup(recipe.criterion.name).pins == "normalized":
            raise UserError(
                f"--then {step}: {recipe.criterion.name} is normalized by construction; nothing to calibrate."
            )
        if what == "complete":
            challenge(recipe.data)  # refused now rather than after hours of training
    recipe = replace(recipe, criterion=settle(recipe.criterion))
    torch.set_num_threads(recipe.training.threads)
    keep_freed_memory()
    corpus = open_corpus(recipe.data)
    criterion = make_criterion(recipe.criterion, corpus.vocab.counts, corpus["train"], recipe.model.squash)
    windows = Windows(corpus["train"], recipe.training.batch, recipe.training.steps)
    with locked(folder):  # nothing is written before this line: what can be refused has been
        made = create(folder, recipe, corpus.vocab)
        _Driver(made, corpus, criterion, windows).drive()
        follow(made, corpus, then)
    return made


def follow(made: Run, corpus: Corpus, steps: Sequence[str]) -> None:
    """What comes after training. Done steps stay.

    "test" measures the raw model, "test.mlp" calibrates with mlp first; "complete" answers the challenge's questions.
    """
    for step in steps:
        what, _, kind = step.partition(".")
        kind = kind or "none"
        if made.file(f"{step}.json").exists():
            continue
        if not has_calibration(made, kind):
            calibrate_run(made, corpus, kind)
        if what == "complete":
            asked = challenge(made.recipe.data)
            write_json(made.file(f"{step}.json"), result(made, asked, choose(made, asked, kind), kind))
        else:
            measure_split(made, corpus, what, kind)


def calibrate_run(made: Run, corpus: Corpus, kind: str, budget: Budget | None = None) -> dict[str, Any]:
    """Fit a calibration, store it in the run folder and make it the one in use; gives what calibration.json says."""
    if lookup(made.recipe.criterion.name).pins == "normalized":
        raise UserError(f"{made.folder} is normalized by construction: log Z is 0 and there is nothing to calibrate.")
    budget, start = budget or Budget(), time.monotonic()
    model = load_model(made, calibration="none")
    train_ids, valid, rng = (
        corpus["train"],
        corpus["valid"],
        torch.Generator().manual_seed(made.recipe.training.seed),
    )
    count = min(budget.contexts, len(train_ids) - 1)
    work = {"shift": 0, "affine": count, "mlp": count * (1 + budget.passes)}
    if kind not in work:
        raise UserError(f"--with {kind}: unknown calibration.{nearest(kind, work)} Known: {', '.join(work)}.")
    with progress(f"calibrate {kind}", work[kind] or None, "contexts") as advance:
        normalizer: nn.Module
        if kind == "shift":
            normalizer = shift(model, valid)
        elif kind == "affine":
            normalizer = affine(model, train_ids, budget, advance)
        else:
            normalizer = mlp(model, train_ids, budget, rng, advance)
    seconds, before = time.monotonic() - start, validate(model, valid)
    after = validate(_with(model, normalizer), valid)
    found = facts(before, after, seconds, None if kind == "shift" else replace(budget, contexts=count))
    save_calibration(made, kind, normalizer, found)
    return found


def _with(model: LanguageModel, normalizer: nn.Module) -> LanguageModel:
    return model.with_output(model.output.with_normalizer(normalizer))


def measure_split(made: Run, corpus: Corpus, split: str, calibration: str | None = None) -> Measurement:
    """Measure the run's best model on a split and store the numbers in its folder."""
    kind = made.calibration if calibration is None else calibration
    model = load_model(made, calibration=kind)
    ids, line = corpus[split], signature(made.recipe, split, kind)
    theory = check_theorems(model, corpus.vocab, ids) if corpus.name == "synthetic" else None
    with progress(f"measure {split}", len(ids) - 1) as advance:
        measured = measure(model, ids, line, made.recipe.training.seed, advance, theory, made.vocab.words)
    measured.write(made.file(f"{split}.json" if kind == "none" else f"{split}.{kind}.json"))
    return measured


class _Driver:
    """Drives the training generator: validates, keeps the best, checkpoints by the clock and at every epoch."""

    def __init__(self, made: Run, corpus: Corpus, criterion: Criterion, windows: Windows) -> None:
        self.run, self.corpus, self.training = made, corpus, made.recipe.training
        self.criterion, self.windows = criterion, windows
        self.rng = torch.Generator().manual_seed(self.training.seed)
        self.model: LanguageModel = fresh_model(made.recipe, len(corpus.vocab), self.rng)
        self.place, self.history = load_checkpoint(made, self.model, self.rng)
        self.seconds = float(self.history[-1]["seconds"]) if self.history else 0.0

    def drive(self) -> None:
        steps = train(self.model, self.criterion, self.windows, self.training, self.rng, self.place)
        per_window, done = (
            self.training.batch * self.training.steps,
            (self.place.epoch - 1) * len(self.windows) + self.place.window,
        )
        left = self.training.epochs * len(self.windows) - done
        if left <= 0:
            if not self.run.file("model.safetensors").exists():  # stopped right before it was written
                save_weights(self.run.file("model.safetensors"), self._usable())
            return
        started = saved = validated = time.monotonic()
        with progress(f"train {self.run.folder.name}", left * per_window) as advance:
            for place in steps:
                advance(per_window)
                now = time.monotonic()
                if place.window == len(self.windows):
                    self._end_epoch(place, self.seconds + now - started)
                    saved = validated = time.monotonic()
                elif self.training.validate_minutes and now - validated > 60 * self.training.validate_minutes:
                    self._keep_best(self._line(place, self.seconds + now - started))
                    save_checkpoint(self.run, self.model, place, self.rng, self.history)
                    saved = validated = time.monotonic()
                elif now - saved > 60 * self.training.checkpoint_minutes:
                    save_checkpoint(self.run, self.model, place, self.rng, self.history)
                    saved = time.monotonic()
        save_weights(self.run.file("model.safetensors"), self._usable())

    def _usable(self) -> LanguageModel:
        """The model whose m estimates log p, as everything after training expects it."""
        return self.model.with_output(self.criterion.recover(self.model.output))

    def _line(self, place: Place, seconds: float) -> dict[str, Any]:
        numbers = validate(self._usable(), self.corpus["valid"])
        if not math.isfinite(numbers["perplexity"]):
            raise Diverged(
                f"The validation perplexity became {numbers['perplexity']} in epoch {place.epoch}. The last checkpoint is kept. "
                "Try a lower training.learning_rate, a smaller criterion.alpha, or model.squash = true."
            )
        return {
            "epoch": round(place.epoch - 1 + place.window / len(self.windows), 4),
            "learning_rate": learning_rate(self.training, place.epoch),
            "fit": place.fit / place.words,
            "penalty": place.penalty / place.words,
            **numbers,
            "seconds": round(seconds, 2),
            "megabytes": round(peak_megabytes()),
        }

    def _keep_best(self, line: dict[str, Any]) -> None:
        best = min((old["perplexity"] for old in self.history), default=float("inf"))
        if line["perplexity"] < best or not self.run.file("best.safetensors").exists():
            forget_measured(self.run)
            save_weights(self.run.file("best.safetensors"), self._usable())
        self.history.append(line)
        say(
            f"{self.run.folder.name}: epoch {line['epoch']:g}  valid perplexity {line['perplexity']:.2f}  "
            f"mu_z {line['mu_z']:+.3f}  sigma_z {line['sigma_z']:.3f}  ({line['seconds']:.0f} s)"
        )

    def _end_epoch(self, place: Place, seconds: float) -> None:
        self._keep_best(self._line(place, seconds))
        save_checkpoint(self.run, self.model, place, self.rng, self.history)

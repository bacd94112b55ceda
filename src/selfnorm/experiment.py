"""The corridor: a recipe goes in, a run folder comes out. Open this file first."""

from __future__ import annotations

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
from selfnorm.costs import time_scoring, time_training
from selfnorm.criteria import make_criterion
from selfnorm.drive import Driver
from selfnorm.errors import UserError, nearest
from selfnorm.files import locked, read_json, write_json
from selfnorm.measure import measure, validate
from selfnorm.memory import keep_freed_memory
from selfnorm.names import lookup, settle
from selfnorm.recipe import Data, Recipe
from selfnorm.results import COST, TIMES, Measurement, check_step, parse_signature
from selfnorm.runs import (
    Run,
    apply,
    create,
    has_calibration,
    load_model,
    refuse_foreign,
    refuse_replaced,
    save_calibration,
    signed,
    stamp,
)
from selfnorm.terminal import progress, say
from selfnorm.text import Corpus, open_corpus
from selfnorm.text.synthetic import whole
from selfnorm.theory import check_theorems

COSTS = {TIMES: time_scoring, COST: time_training}


def run(recipe: Recipe, folder: Path, then: Sequence[str] = ("valid",)) -> Run:
    """Train as the recipe says, from the start or from where an earlier call was stopped; then measure."""
    refuse_foreign(folder)
    for step in then:
        what, kind = check_step(step)
        if kind and lookup(recipe.criterion.name).pins == "normalized":
            raise UserError(
                f"--then {step}: {recipe.criterion.name} is normalized by construction; nothing to calibrate."
            )
        if what == "complete":
            challenge(recipe.data)  # refused now rather than after hours of training
    recipe = replace(recipe, criterion=settle(recipe.criterion), data=_found(recipe.data))
    torch.set_num_threads(recipe.training.threads)
    keep_freed_memory()
    corpus = open_corpus(recipe.data)
    criterion = make_criterion(recipe.criterion, corpus.counts(), corpus["train"], recipe.model.squash)
    windows = Windows(corpus["train"], recipe.training.batch, recipe.training.steps)
    with locked(folder):  # nothing is written before this line: what can be refused has been
        made = create(folder, recipe, corpus.vocab, corpus.fingerprint)
        Driver(made, corpus, criterion, windows).drive()
        follow(made, corpus, then)
    return made


def _found(data: Data) -> Data:
    """Where the text is is written down by its full path, so that the run can be used from anywhere."""
    data = replace(data, folder=str(Path(data.folder).resolve())) if data.folder else data
    return replace(data, folder="", file=str(data.path.resolve())) if data.file and data.path.exists() else data


def follow(made: Run, corpus: Corpus, steps: Sequence[str]) -> None:
    """What comes after training. Done steps stay.

    "test" measures the raw model, "test.mlp" calibrates with mlp first; "complete" answers the challenge's questions; "times"
    scores the validation text with and without log Z; "cost" times training steps.
    """
    for step in steps:
        what, _, kind = step.partition(".")
        kind = kind or "none"
        if _stands(made, f"{step}.json"):
            continue
        if not has_calibration(made, kind):
            calibrate_run(made, corpus, kind, use=False)
        if what == "complete":
            asked = challenge(made.recipe.data)
            write_json(made.file(f"{step}.json"), result(made, asked, choose(made, asked, kind), kind))
        elif step in COSTS:
            write_json(made.file(f"{step}.json"), COSTS[step](made, corpus))
        else:
            measure_split(made, corpus, what, kind)


def _stands(made: Run, name: str) -> bool:
    """Is there such a result, of the run as long as it is now? A run that was made longer is measured again."""
    if not made.file(name).exists():
        return False
    now = parse_signature(signed(made, "", "none"))
    found = read_json(made.file(name))
    whole = isinstance(found, dict) and bool({"mu_z", "kind_of_result"} & set(found))
    return whole and parse_signature(str(found.get("signature", ""))).get("epochs") == now["epochs"]


def calibrate_run(
    made: Run, corpus: Corpus, kind: str, budget: Budget | None = None, use: bool = True
) -> dict[str, Any]:
    """Fit a calibration, store it in the run folder and, if wanted, make it the one in use; gives what calibration.json says."""
    if lookup(made.recipe.criterion.name).pins == "normalized":
        raise UserError(f"{made.folder} is normalized by construction: log Z is 0 and there is nothing to calibrate.")
    budget, start = budget or Budget(), time.monotonic()
    weights, model = stamp(made), load_model(made, calibration="none")
    train_ids, valid, rng = (
        corpus["train"],
        corpus["valid"],
        torch.Generator().manual_seed(made.recipe.training.seed),
    )
    count = min(budget.contexts, len(train_ids) - 1)
    work, used = {"shift": 0, "affine": count, "mlp": count * (1 + budget.passes)}, replace(budget, contexts=count)
    if kind not in work:
        raise UserError(f"--with {kind}: unknown calibration.{nearest(kind, work)} Known: {', '.join(work)}.")
    with progress(f"calibrate {kind}", work[kind] or None, "contexts") as advance:
        normalizer: nn.Module
        if kind == "shift":
            normalizer = shift(model, valid)
        elif kind == "affine":
            normalizer = affine(model, train_ids, budget, advance)
        else:
            normalizer, used = mlp(model, train_ids, budget, rng, advance)
            if used.passes < budget.passes:
                say(f"the time was up after {used.contexts:,} contexts and {used.passes:g} of {budget.passes:g} passes")
    seconds, before = time.monotonic() - start, validate(model, valid)
    after = validate(apply(model, normalizer), valid)
    found = facts(before, after, seconds, None if kind == "shift" else used)
    refuse_replaced(made, weights)
    save_calibration(made, kind, normalizer, found, use)
    return found


def measure_split(made: Run, corpus: Corpus, split: str, calibration: str | None = None) -> Measurement:
    """Measure the run's best model on a split and store the numbers in its folder."""
    kind = made.calibration if calibration is None else calibration
    weights, model = stamp(made, kind), load_model(made, calibration=kind)
    ids, line = corpus[split], signed(made, split, kind)
    theory = check_theorems(model, corpus.vocab, ids) if corpus.name == "synthetic" and whole(corpus.vocab) else None
    with progress(f"measure {split}", len(ids) - 1) as advance:
        measured = measure(model, ids, line, made.recipe.training.seed, advance, theory, made.vocab.words)
    refuse_replaced(made, weights, kind)
    path = made.file(f"{split}.json" if kind == "none" else f"{split}.{kind}.json")
    try:
        measured.write(path)
    except PermissionError as error:  # somebody else's run may be looked at, though nothing can be kept in it
        say(f"not kept in {path}: {error.strerror}")
    return measured

"""Commands from recipe to calibrated model: train, measure, calibrate."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from selfnorm.cli.options import Changes, From, Json
from selfnorm.recipe import read_recipe
from selfnorm.terminal import say, table


def register(app: App) -> None:
    for command in (train, measure, calibrate):
        app.command(command)


def train(
    recipe: Path | None = None,
    /,
    *,
    to: Path,
    from_: From = "",
    set_: Changes = None,
    then: Annotated[list[str] | None, Parameter(negative="")] = None,
) -> None:
    """Train a model as a recipe says and measure it on the validation text. The same command resumes a stopped run.

    Parameters
    ----------
    recipe
        TOML file with sections data, model, criterion, training. Without it: the paper's NCE-LM, d = 100, on sotu.
    to
        Run folder to make or resume.
    then
        What to measure afterwards: valid, test, test.shift, test.affine, test.mlp. Repeat for more.
    """
    read = read_recipe(recipe, set_ or [])
    if from_:
        read = replace(read, data=replace(read.data, folder=from_))
    from selfnorm.experiment import run

    made = run(read, to, tuple(then or ["valid"]))
    say(f"run folder: {made.folder}")


def measure(
    run: Path,
    /,
    *,
    split: Literal["valid", "test", "train"] = "test",
    calibration: Annotated[
        Literal["none", "shift", "affine", "mlp"] | None,
        Parameter(help="Default: the one in use in the run."),
    ] = None,
    examples: Annotated[bool, Parameter(negative="", help="Also show the contexts where log Z strays most.")] = False,
    from_: From = "",
    json_: Json = False,
) -> None:
    """Measure mu_z, sigma_z, perplexity, u_perplexity and the correlation of entropy and log Z, with 95 % intervals.

    Parameters
    ----------
    run
        Run folder made by selfnorm train.
    split
        Which text.
    """
    from selfnorm.experiment import measure_split
    from selfnorm.opening import open_with_text

    made, corpus = open_with_text(run, from_)
    found = measure_split(made, corpus, split, calibration)
    if json_:
        print(json.dumps(asdict(found)))
        return
    rows = [
        [
            name,
            f"{getattr(found, name):.4f}",
            f"{found.intervals[name][0]:.4f} to {found.intervals[name][1]:.4f}",
        ]
        for name in ("mu_z", "sigma_z", "perplexity", "u_perplexity", "correlation")
    ]
    table(
        f"{run}, {split}: {found.words:,} words in {found.seconds:.1f} s",
        ["", "value", "95 % interval"],
        rows,
    )
    if found.theory:
        t = found.theory
        say(
            f"Theorem 1 holds for {t['theorem_1_holds']:,} of {t['contexts']:,} contexts; "
            f"Theorem 2: {t['abs_mu_z']:.4f} <= {t['theorem_2_epsilon']:.4f}."
        )
    if examples:
        strays = [
            [f"{e['context']} [{e['next']}]", f"{e['log_z']:+.3f}", f"{e['entropy']:.3f}"]
            for e in found.notes["examples"]
        ]
        table("where log Z strays furthest from its mean", ["context [next word]", "log Z", "entropy"], strays)
    say(found.signature)


def calibrate(
    run: Path,
    /,
    *,
    with_: Annotated[Literal["none", "shift", "affine", "mlp"], Parameter(name="--with")] = "shift",
    contexts: int = 1_000_000,
    passes: float = 4,
    minutes: float = 30.0,
    hidden: Annotated[list[int] | None, Parameter(negative="")] = None,
    frequent: int = 256,
    stored: Annotated[bool, Parameter(negative="")] = False,
    from_: From = "",
    json_: Json = False,
) -> None:
    """Take log Z out of every score of a trained model, without retraining. Stored in the run and used from then on.

    Parameters
    ----------
    run
        Run folder made by selfnorm train.
    with_
        shift: the validation mean, free. affine: least squares on c, free. mlp: a small network of c, best. none: undo.
    contexts
        How many training contexts affine and mlp may use.
    passes
        Passes over them for mlp.
    minutes
        Stop fitting mlp after so long.
    hidden
        Units of each hidden layer of mlp (default 128 128).
    frequent
        Words whose sum of e^m mlp computes and starts from; 0 leaves that out and saves frequent·d multiplications a word.
    stored
        Do not fit: put the calibration that is stored in the run in use again.
    """
    from selfnorm.calibrate import Budget
    from selfnorm.experiment import calibrate_run
    from selfnorm.opening import open_with_text
    from selfnorm.runs import load_model, open_run, use_calibration

    if with_ == "none" or stored:
        load_model(opened := open_run(run), calibration=with_)  # what does not fit is not put in use
        use_calibration(opened, with_)
        say(f"{run}: {'no' if with_ == 'none' else with_} calibration in use")
        if json_:
            print(json.dumps({"kind": with_}))
        return
    made, corpus = open_with_text(run, from_)
    found = calibrate_run(made, corpus, with_, Budget(contexts, passes, minutes, tuple(hidden or (128, 128)), frequent))
    if json_:
        print(json.dumps({"kind": with_, **found}))
        return
    before, after = found["valid_before"], found["valid_after"]
    rows = [
        [name, f"{before[name]:.4f}", f"{after[name]:.4f}"]
        for name in ("mu_z", "sigma_z", "perplexity", "u_perplexity")
    ]
    held = "validation text, on which it was fitted" if with_ == "shift" else "held-out validation text"
    table(f"{run}: {with_}, {found['seconds']:.0f} s, {held}", ["", "before", "after"], rows)

"""selfnorm train"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from selfnorm._util.console import say
from selfnorm.cli.options import Changes, From
from selfnorm.config.toml import as_toml, read_recipe


def train(
    recipe: Path | None = None,
    /,
    *,
    to: Path,
    text: Annotated[Path | None, Parameter(help="A text file of yours: the same as --set data.file=FILE.")] = None,
    criterion: Annotated[str | None, Parameter(help="The same as --set criterion.name=NAME.")] = None,
    from_: From = "",
    device: Annotated[
        str | None, Parameter(help="The same as --set training.device=NAME: auto, cpu, cuda, cuda:1, mps.")
    ] = None,
    set_: Changes = None,
    then: Annotated[list[str] | None, Parameter(negative="")] = None,
) -> None:
    """Train a model as a recipe says and measure it on the validation text. The same command resumes a stopped run.

    Several processes train one model: torchrun --nproc-per-node 2 -m selfnorm train … (docs/scaling.md).

    Parameters
    ----------
    recipe
        TOML file with sections data, model, criterion, training. Without it: the paper's NCE-LM, d = 100, on sotu.
    to
        Run folder to make or resume.
    then
        What to measure afterwards: valid, test, valid.shift, test.shift, test.affine, test.mlp, … Repeat for more.
    """
    short = [f"data.file={as_toml(str(text))}"] if text is not None else []
    short += [f"criterion.name={as_toml(criterion)}"] if criterion is not None else []
    short += [f"training.device={as_toml(device)}"] if device is not None else []
    read = read_recipe(recipe, [*short, *(set_ or [])])
    if from_:
        read = replace(read, data=replace(read.data, folder=from_))
    from selfnorm.studies.experiment import run_experiment

    run = run_experiment(read, to, tuple(then or ["valid"]))
    if os.environ.get("RANK", "0") == "0":
        say(f"run folder: {run.folder}")

"""selfnorm calibrate"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from selfnorm._util.console import say, table
from selfnorm.cli.options import From, Json
from selfnorm.registry.calibrations import check_kind


def calibrate(
    run: Path,
    /,
    *,
    with_: Annotated[str, Parameter(name="--with")] = "shift",
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
    from selfnorm.calibration.base import Budget
    from selfnorm.runs.calibrate import calibrate_run
    from selfnorm.runs.calibrations import use_calibration
    from selfnorm.runs.folder import open_run
    from selfnorm.runs.loading import load_model
    from selfnorm.runs.opening import open_with_text

    check_kind(with_)
    if with_ == "none" or stored:
        load_model(opened := open_run(run), calibration=with_)  # what does not fit is not put in use
        use_calibration(opened, with_)
        say(f"{run}: {'no' if with_ == 'none' else with_} calibration in use")
        if json_:
            print(json.dumps({"kind": with_}))
        return
    opened, corpus = open_with_text(run, from_)
    found = calibrate_run(
        opened, corpus, with_, Budget(contexts, passes, minutes, tuple(hidden or (128, 128)), frequent)
    )
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

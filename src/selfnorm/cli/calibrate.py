"""selfnorm calibrate"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from selfnorm._util.console import say, table
from selfnorm._util.errors import UserError
from selfnorm.cli.options import Device, From, Json
from selfnorm.registry.calibrations import check_kind


def calibrate(
    run: Path,
    /,
    *,
    with_: Annotated[str | None, Parameter(name="--with")] = None,
    cost: float | None = None,
    sigma: float | None = None,
    contexts: int = 1_000_000,
    passes: float = 4,
    minutes: float = 30.0,
    hidden: Annotated[list[int] | None, Parameter(negative="")] = None,
    frequent: int = 256,
    rank: int = 192,
    top: int = 0,
    preview: Literal["float32", "bf16", "int8"] = "int8",
    other: Annotated[list[Path] | None, Parameter(negative="")] = None,
    stored: Annotated[bool, Parameter(negative="")] = False,
    from_: From = "",
    device: Device = "",
    json_: Json = False,
) -> None:
    """Subtract an estimate of log Z from every score of a trained model, without retraining. Stored in the run and used from then on.

    Choose a kind (--with), or let it be chosen by measuring: --cost 0.1 takes the best that costs at most a tenth of the exact
    log Z, --sigma 0.02 the cheapest that leaves at most 0.02.

    Parameters
    ----------
    run
        Run folder made by selfnorm train.
    with_
        mlp: a small network of c, best for word models (default). shift: the validation mean, free. affine: least squares on c,
        free. screen: a low-rank preview and the largest scores exactly, for heads of large language models. int8: all scores in
        eight bits and the largest exactly. none: undo.
    cost
        Try kinds and sizes; take the best with at most this share of the exact log Z's multiply-adds.
    sigma
        Try kinds and sizes, cheapest first; take the first that leaves at most this much on held-out contexts.
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
    rank
        Directions of screen's preview.
    top
        Words whose scores screen and int8 compute exactly (default 2048 and 64).
    preview
        Precision of screen's preview.
    other
        Another text file: also show what is left on it. Repeat for more.
    stored
        Do not fit: put the calibration that is stored in the run in use again.
    """
    from selfnorm.calibration.base import Budget
    from selfnorm.runs.calibrate import calibrate_by_budget, calibrate_run, measure_other_text
    from selfnorm.runs.calibrations import use_calibration
    from selfnorm.runs.folder import open_run
    from selfnorm.runs.loading import load_model
    from selfnorm.runs.opening import open_with_text

    if sum(x is not None for x in (with_, cost, sigma)) > 1:
        raise UserError("--with, --cost and --sigma exclude each other: name a kind, or let it be chosen.")
    if stored and (cost is not None or sigma is not None):
        raise UserError("--stored puts a calibration in use that is there already: leave --cost and --sigma out.")
    if other and (stored or with_ == "none"):
        raise UserError("--other shows what a new fit leaves: leave it out with --stored and --with none.")
    for path in other or []:
        _require_text(path)
    by_budget, with_ = cost is not None or sigma is not None, check_kind(with_ or "mlp")
    if with_ == "none" or stored:
        load_model(opened := open_run(run), calibration=with_)  # what does not fit is not put in use
        use_calibration(opened, with_)
        say(f"{run}: {'no' if with_ == 'none' else with_} calibration in use")
        if json_:
            print(json.dumps({"kind": with_}))
        return
    opened, corpus = open_with_text(run, from_, device)
    budget = Budget(contexts, passes, minutes, tuple(hidden or (128, 128)), frequent, rank, top, preview)
    if by_budget:
        with_, found = calibrate_by_budget(opened, corpus, cost, sigma, budget)
    else:
        found = calibrate_run(opened, corpus, with_, budget)
    others = {str(path): measure_other_text(opened, path, with_) for path in other or []}
    if json_:
        print(json.dumps({"kind": with_, **found, **({"others": others} if others else {})}))
        return
    before, after = found["valid_before"], found["valid_after"]
    rows = [
        [name, f"{before[name]:.4f}", f"{after[name]:.4f}"]
        for name in ("mu_z", "sigma_z", "perplexity", "u_perplexity")
    ]
    held = "validation text, on which it was fitted" if with_ == "shift" else "held-out validation text"
    share = f"{found['share_of_exact']:.1%} of the exact log Z's multiply-adds"
    table(f"{run}: {with_}, {found['seconds']:.0f} s, {share}, {held}", ["", "before", "after"], rows)
    for name, pair in others.items():
        rows = [[key, f"{pair['before'][key]:.4f}", f"{pair['after'][key]:.4f}"] for key in pair["before"]]
        table(f"{name}: what is left on another text", ["", "before", "after"], rows)


def _require_text(path: Path) -> None:
    """What is wrong with another text is said before the fit, which may take half an hour."""
    from selfnorm.data.sources.files import lines_of, read_bytes

    if not path.is_file():
        raise UserError(f"--other {path}: there is no such file. Check the path.")
    for _ in lines_of(read_bytes(path), str(path))():
        pass

"""selfnorm mix"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from selfnorm._util.console import table
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, today
from selfnorm.cli.options import Device, Json, Kind


def mix(
    run: Path, arpa: Path, held_out: Path, text: Path, /, *, calibration: Kind = None,
    to: Path | None = None, unnormalized: Annotated[bool, Parameter(negative="")] = False, device: Device = "",
    json_: Json = False,
) -> None:  # fmt: skip
    """Mix a model with an n-gram model, word by word: the weight is tuned on one text and measured on another.

    Parameters
    ----------
    run
        Run folder made by selfnorm train.
    arpa
        ARPA or KenLM file.
    held_out
        Sentences to tune the weight on.
    text
        Sentences to measure on.
    to
        Also write the JSON here: the report shows it as a row.
    unnormalized
        Use our scores without log Z; then perplexities are unnormalized ones.
    """
    from selfnorm.runs.opening import load
    from selfnorm.tasks.nbest.base import lines_of
    from selfnorm.tasks.ngram import Ngram, mixture, word_scores

    scorer, other = load(run, not unnormalized, calibration, device=device), Ngram(arpa)
    found = mixture(*(word_scores(scorer, other, lines_of(path)) for path in (held_out, text)))
    if to is not None:
        row = {"model": run.name, "n-gram": arpa.name, **{k: f"{v:.3f}" for k, v in found.__dict__.items()}}
        write_json(
            to,
            {"kind_of_result": "Mixing with an n-gram model", "row": row, "command": command_line(), "date": today()},
        )
    if json_:
        print(json.dumps(found.__dict__))
        return
    mixed = f"mixed, weight of the n-gram {found.weight:.3f}"
    rows = [["ours", f"{found.neural:.2f}"], ["n-gram", f"{found.ngram:.2f}"], [mixed, f"{found.mixed:.2f}"]]
    table(f"{text}: {found.words:,} words, sentence by sentence", ["model", "perplexity"], rows)

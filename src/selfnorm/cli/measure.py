"""selfnorm measure"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from selfnorm._util.columns import write_columns
from selfnorm._util.console import say, table
from selfnorm.cli.options import Device, From, Json, Kind


def measure(
    run: Path,
    /,
    *,
    split: Literal["valid", "test", "train"] = "test",
    calibration: Kind = None,
    examples: Annotated[bool, Parameter(negative="", help="Also show the contexts where log Z deviates most.")] = False,
    per_word: Annotated[
        Path | None, Parameter(help="Also write every word's numbers: FILE.csv, .jsonl or .parquet.")
    ] = None,
    from_: From = "",
    device: Device = "",
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
    from selfnorm.runs.evaluate import measure_split, tokens_of_split
    from selfnorm.runs.opening import open_with_text

    opened, corpus = open_with_text(run, from_, device)
    found = measure_split(opened, corpus, split, calibration)
    if per_word is not None:
        write_columns(per_word, tokens_of_split(opened, corpus, split, calibration))
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
        rows = [
            [f"{e['context']} [{e['next']}]", f"{e['log_z']:+.3f}", f"{e['entropy']:.3f}"]
            for e in found.notes["examples"]
        ]
        table("where log Z deviates most from its mean", ["context [next word]", "log Z", "entropy"], rows)
    say(found.signature)

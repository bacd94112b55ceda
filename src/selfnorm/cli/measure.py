"""selfnorm measure"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from selfnorm._util.columns import ending_of, write_columns
from selfnorm._util.console import say, table
from selfnorm._util.errors import UserError
from selfnorm.cli.cluster import Jobs, On, To, measure_text
from selfnorm.cli.options import Device, From, Json, Kind, Tokenized, output_file, require_stdout


def measure(
    run: Path,
    text: Path | None = None,
    /,
    *,
    split: Literal["valid", "test", "train"] | None = None,
    calibration: Kind = None,
    examples: Annotated[bool, Parameter(negative="", help="Also show the contexts where log Z deviates most.")] = False,
    per_word: Annotated[
        Path | None, Parameter(help="Also write every word's numbers: FILE.csv, .jsonl or .parquet.")
    ] = None,
    from_: From = "",
    tokenized: Tokenized = False,
    device: Device = "",
    json_: Json = False,
    on: On = "here",
    to: To = None,
    jobs: Jobs = 0,
    shard: int = 20_480,
) -> None:
    """Measure mu_z, sigma_z, perplexity, u_perplexity and the correlation of entropy and log Z, with 95 % intervals.

    A split of the run's own text, or a text file of any length, which is measured in parts: sums merge. With --on ray the parts
    are divided over a cluster, and give the same numbers.

    Parameters
    ----------
    run
        Run folder made by selfnorm train.
    text
        File of sentences, one per line, instead of a split. It is tokenized as the training text was; nothing is stored in the run.
    split
        Which part of the run's own text; without it, test.
    shard
        Lines of a part of TEXT. Each part starts with an empty state.
    """
    from selfnorm.runs.evaluate import measure_split, tokens_of_split
    from selfnorm.runs.folder import open_run
    from selfnorm.runs.opening import open_with_text

    require_stdout()
    if text is not None:
        if split is not None or from_:
            raise UserError("--split and --from are for the run's own text: leave them out with a text file.")
        if examples or per_word is not None:
            raise UserError(
                "--examples and --per-word are for a split. For the words of a file: selfnorm score --table."
            )
        found = measure_text(open_run(run, device), calibration, tokenized, text, on, to, jobs, shard)
    else:
        if on == "ray" or to is not None or tokenized:
            raise UserError("--on ray, --to and --tokenized are for a text file: name it after the run.")
        split = split or "test"
        place, ending = (None, "") if per_word is None else (output_file(per_word, run), ending_of(per_word))
        opened, corpus = open_with_text(run, from_, device)
        found = measure_split(opened, corpus, split, calibration)
        if place is not None:
            write_columns(place, tokens_of_split(opened, corpus, split, calibration), ending)
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
        f"{run}, {text or split}: {found.words:,} words in {found.seconds:.1f} s",
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

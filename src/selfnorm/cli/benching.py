"""Commands that time: bench steps, bench scoring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from selfnorm.cli.training import Json
from selfnorm.files import write_json
from selfnorm.results import command_line, environment
from selfnorm.terminal import say, table

Numbers = Annotated[list[int] | None, Parameter(negative="", consume_multiple=True)]
Names = Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)]


def register(app: App) -> None:
    benches = App(
        name="bench",
        help="Time training steps and scoring on this machine, as ratios to the unavoidable.",
        help_format="plaintext",
    )
    benches.command(steps)
    benches.command(scoring)
    app.command(benches)


def steps(
    *, d: Numbers = None, vocab: Numbers = None, criteria: Names = None, rounds: int = 7, threads: int = 2,
    to: Path | None = None, json_: Json = False,
) -> None:  # fmt: skip
    """Seconds per training step of each criterion against the vocabulary, and the ratio to its floor.

    Parameters
    ----------
    d
        Units (default 100 650).
    vocab
        Vocabulary sizes (default 10000 33278 100000 300000 1000000).
    criteria
        Names from the menu (default the paper's five and the sampled ones).
    rounds
        Interleaved repetitions; the median is given.
    to
        Also write the JSON and a plot into this folder.
    """
    from selfnorm.bench.steps import bench_steps

    names = criteria or ["nce", "nce_s", "linear_bound", "nce_r", "andreas", "softmax", "devlin", "adaptive"]
    rows = bench_steps(d or [100, 650], vocab or [10_000, 33_278, 100_000, 300_000, 1_000_000], names, rounds, threads)
    _show("steps", rows, "seconds", to, json_)


def scoring(
    *,
    d: Numbers = None,
    vocab: Numbers = None,
    rounds: int = 7,
    threads: int = 2,
    to: Path | None = None,
    json_: Json = False,
) -> None:
    """Seconds per 1,000 words of scoring with and without log Z, and the ratio to the recurrent layers alone.

    Parameters
    ----------
    d
        Units (default 650).
    vocab
        Vocabulary sizes (default 10000 33278 100000 800000).
    rounds
        Interleaved repetitions; the median is given.
    to
        Also write the JSON and a plot into this folder.
    """
    from selfnorm.bench.scoring import bench_scoring

    rows = bench_scoring(d or [650], vocab or [10_000, 33_278, 100_000, 800_000], rounds, threads)
    _show("scoring", rows, "seconds_per_1000_words", to, json_)


def _show(name: str, rows: list[dict[str, Any]], key: str, to: Path | None, as_json: bool) -> None:
    found = {"command": command_line(), **environment(), "rows": rows}
    if to is not None:
        from selfnorm.report.plots import lines_against_v

        write_json(to / f"{name}.json", found)
        (to / f"{name}.svg").write_text(lines_against_v(rows, key), encoding="utf-8")
        say(f"in {to}: {name}.json, {name}.svg")
    if as_json:
        print(json.dumps(found))
        return
    cells = []
    for r in rows:
        times = [f"{1000 * r[k]:.2f}" for k in (key, "floor_seconds")]
        memory = "" if r["megabytes"] is None else f"{r['megabytes']:,.0f}"
        cells.append([r["criterion"], str(r["d"]), f"{r['V']:,}", *times, f"{r['ratio']:.2f}", memory])
    table(f"{name}: medians, ms", ["", "d", "V", "ms", "floor ms", "times the floor", "MB beside the model"], cells)

"""selfnorm bench: steps and scoring."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from selfnorm._util.console import Advance, progress, say, table
from selfnorm._util.errors import UserError
from selfnorm._util.files import write_json, write_text
from selfnorm._util.machine import command_line, environment
from selfnorm._util.memory import keep_freed_memory
from selfnorm.cli.options import Device, Json

Numbers = Annotated[list[int] | None, Parameter(negative="", consume_multiple=True)]
Names = Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)]

Job = Callable[[Advance], list[dict[str, Any]]]


def app() -> App:
    benches = App(
        name="bench",
        help="Time training steps and scoring on this machine, as ratios to the unavoidable.",
        help_format="plaintext",
    )
    benches.command(steps)
    benches.command(scoring)
    return benches


def steps(
    *, d: Numbers = None, vocab: Numbers = None, criteria: Names = None, rounds: int = 7, threads: int = 2,
    device: Device = "cpu", to: Path | None = None, json_: Json = False,
) -> None:  # fmt: skip
    """Seconds per training step of each criterion against the vocabulary, and the ratio to its floor.

    Parameters
    ----------
    d
        Units (default 100 650).
    vocab
        Vocabulary sizes (default 10000 33278 100000 300000 1000000).
    criteria
        Names of criteria (default all: a quarter of an hour).
    rounds
        Interleaved repetitions; the median is given.
    to
        Also write into this folder: the JSON after each d and V, a plot at the end.
    """
    from selfnorm._util.devices import choose
    from selfnorm.registry.criteria import CRITERIA
    from selfnorm.studies.bench.steps import bench_steps, planned

    _check(d, vocab, rounds, threads)
    where = choose(device)
    plan = planned(d or [100, 650], vocab or [10_000, 33_278, 100_000, 300_000, 1_000_000], criteria or list(CRITERIA))
    jobs = [(len(names), partial(bench_steps, one, V, names, rounds, where)) for one, V, names in plan]
    _show("steps", _run("steps", jobs, threads, to), "seconds", to, json_)


def scoring(
    *,
    d: Numbers = None,
    vocab: Numbers = None,
    rounds: int = 7,
    threads: int = 2,
    device: Device = "cpu",
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
    from selfnorm._util.devices import choose
    from selfnorm.studies.bench.scoring import NAMES, bench_scoring

    _check(d, vocab, rounds, threads)
    where = choose(device)
    sizes = [(one, V) for one in d or [650] for V in vocab or [10_000, 33_278, 100_000, 800_000]]
    jobs = [(len(NAMES), partial(bench_scoring, one, V, rounds, where)) for one, V in sizes]
    _show("scoring", _run("scoring", jobs, threads, to), "seconds_per_1000_words", to, json_)


def _check(d: list[int] | None, vocab: list[int] | None, rounds: int, threads: int) -> None:
    for name, numbers, least in (
        ("d", d or [], 1),
        ("vocab", vocab or [], 10),
        ("rounds", [rounds], 1),
        ("threads", [threads], 1),
    ):
        for number in numbers:
            if number < least:
                raise UserError(f"--{name} {number}: give at least {least}.")


def _run(name: str, jobs: Sequence[tuple[int, Job]], threads: int, to: Path | None) -> dict[str, Any]:
    """All jobs in turn. What has been measured is written after each, so that a stopped run loses only the one it was at."""
    import torch

    torch.set_num_threads(threads)
    keep_freed_memory()
    found: dict[str, Any] = {"command": command_line(), **environment(), "threads": threads, "rows": []}
    with progress(f"bench {name}", sum(size for size, _ in jobs), "rows") as advance:
        for _, job in jobs:
            found["rows"] += job(advance)
            if to is not None:
                write_json(to / f"{name}.json", found)
    return found


def _show(name: str, found: dict[str, Any], key: str, to: Path | None, as_json: bool) -> None:
    rows = found["rows"]
    if to is not None:
        from selfnorm.report.charts.against_v import against_v
        from selfnorm.report.charts.figure import svg

        write_text(to / f"{name}.svg", svg(against_v(rows, key, name)))
        say(f"in {to}: {name}.json, {name}.svg")
    if as_json:
        print(json.dumps(found))
        return
    cells = []
    for r in rows:
        times = [f"{1000 * r[k]:.2f}" for k in (key, "floor_seconds")]
        memory = "" if r["megabytes"] is None else f"{r['megabytes']:,.0f}"
        cells.append([r["criterion"], str(r["d"]), f"{r['V']:,}", *times, f"{r['ratio']:.2f}", memory])
    table(f"{name}: medians, ms", ["", "d", "V", "ms", "floor ms", "times the floor", "MB besides the model"], cells)

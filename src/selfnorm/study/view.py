"""The table a person watches while a study runs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from rich.table import Table

from selfnorm.study.plan import Planned
from selfnorm.study.progress import progress_of, seconds_left

HEAD = ("run", "state", "epoch", "perplexity", "sigma_z", "spent")


def status_rows(
    planned: list[Planned], root: Path, running: Collection[str] = (), failed: Collection[str] = ()
) -> list[list[str]]:
    rows = []
    for run in planned:
        p = progress_of(run, root)
        state = "running" if run.name in running else "FAILED" if run.name in failed else p.state
        perplexity = "" if p.perplexity is None else f"{p.perplexity:.1f}"
        sigma = "" if p.sigma_z is None else f"{p.sigma_z:.3f}"
        rows.append(
            [run.name, state, f"{p.epochs:g}/{run.recipe.training.epochs}", perplexity, sigma, clock(p.seconds)]
        )
    return rows


def status_table(
    planned: list[Planned], root: Path, running: Collection[str], failed: Collection[str], jobs: int
) -> Table:
    left = seconds_left(planned, root, jobs)
    table = Table(title="about " + clock(left) + " left" if left is not None else "estimating", title_justify="left")
    for name in HEAD:
        table.add_column(name, justify="left" if name in ("run", "state") else "right")
    for row in status_rows(planned, root, running, failed):
        table.add_row(*row)
    return table


def clock(seconds: float) -> str:
    minutes = int(seconds) // 60
    return f"{minutes // 60} h {minutes % 60:02d}" if minutes >= 60 else f"{minutes}:{int(seconds) % 60:02d}"

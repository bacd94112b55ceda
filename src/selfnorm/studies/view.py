"""The table a person watches while a study runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from selfnorm.studies.plan import Planned
from selfnorm.studies.progress import progress_of, seconds_left

HEAD = ("run", "state", "epoch", "perplexity", "sigma_z", "spent")


def differing(planned: Sequence[Planned]) -> dict[str, str]:
    """The settings that distinguish runs whose names differ only in the last six letters: model.dropout=0.0."""
    groups: dict[str, list[Planned]] = {}
    for run in planned:
        groups.setdefault(run.name.rpartition("-")[0], []).append(run)
    settings: dict[str, str] = {}
    for group in groups.values():
        flat = [
            {f"{section}.{key}": value for section, table in asdict(run.recipe).items() for key, value in table.items()}
            for run in group
        ]
        keys = [key for key in flat[0] if len({str(f[key]) for f in flat}) > 1]
        settings |= {run.name: " ".join(f"{key}={f[key]}" for key in keys) for run, f in zip(group, flat, strict=True)}
    return {name: text for name, text in settings.items() if text}


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

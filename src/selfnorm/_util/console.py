"""Progress on stderr while something runs, tables on stdout when it is done.

When stderr is not a terminal there is no progress bar, so that logs stay short.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def silent() -> Iterator[None]:
    """No progress bars inside this block."""
    before = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(before)


Advance = Callable[[float], None]

ASCII = {"mu_z": "mu_z", "sigma_z": "sigma_z"}
GREEK = {"mu_z": "μ_z", "sigma_z": "σ_z"}


class _Rate(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: object) -> Text:
        speed = getattr(task, "speed", None) or getattr(task, "finished_speed", None)
        return Text("" if not speed else f"{speed:,.0f} {self.unit}/s", style="cyan")


@contextmanager
def progress(title: str, total: float | None, unit: str = "words") -> Iterator[Advance]:
    """A bar with rate and time left on stderr; nothing when stderr is not a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(unit),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=_QUIET.get() or not console.is_terminal, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda amount: bar.advance(task, amount)


def say(text: str) -> None:
    """A line for the user, on stderr so that stdout is for results alone."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One table on stdout. Plain tab-separated lines when piped, so that cut and awk work."""
    console = Console()
    if not console.is_terminal:
        print(*head, sep="\t")
        for row in rows:
            print(*row, sep="\t")
        return
    names = GREEK if (console.encoding or "").lower().startswith("utf") else ASCII
    drawn = Table(title=title, title_justify="left", title_style="bold")
    for index, name in enumerate(head):
        drawn.add_column(Text(names.get(name, name)), justify="left" if index == 0 else "right")
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))  # as it is: brackets are not markup
    console.print(drawn)


def is_terminal() -> bool:
    return sys.stderr.isatty()

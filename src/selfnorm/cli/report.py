"""selfnorm report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from selfnorm._util.console import say
from selfnorm._util.errors import UserError


def report(
    folder: Path,
    /,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    title: str = "selfnorm report",
    figures: Path | None = None,
    index: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Turn every measurement below a folder into one self-contained page, or into Markdown or CSV tables.

    Parameters
    ----------
    folder
        A run, a study folder or results/.
    out
        report.html (the default), report.md, or report.csv with a row for each measurement.
    title
        Title of the page.
    figures
        Also write every figure into this folder, as SVG with real text and as PNG, for papers.
    index
        Write FOLDER/README.md instead: one row per run, with its command, version and main numbers.
    """
    if index:
        if out is not None or figures is not None:
            raise UserError("--index writes FOLDER/README.md alone: leave --out and --figures out.")
        from selfnorm.report.index import NAME, write_index

        write_index(folder)
        say(f"index: {folder / NAME}")
        return
    from selfnorm.report.page import write_report

    out = out or Path("report.html")
    tables = write_report(folder, out, title, figures=figures)
    say(f"{len(tables)} tables: {out}" + (f"; figures: {figures}" if figures else ""))

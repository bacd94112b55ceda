"""One self-contained page from whatever has been measured; also Markdown, CSV and the figures as files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfnorm import __version__
from selfnorm._util.errors import UserError, missing_extra
from selfnorm._util.files import write_text
from selfnorm._util.machine import machine, today
from selfnorm.report.charts.figure import Figure, javascript, write_figures
from selfnorm.report.charts.theme import config
from selfnorm.report.collect import Collected, collect
from selfnorm.report.factors import studies
from selfnorm.report.sections import Section, sections
from selfnorm.report.summary import summary
from selfnorm.report.table import Table, plain_cell
from selfnorm.report.tidy import tidy

HERE = Path(__file__).parent
PAGE = (".html", ".htm")


def write_report(
    folder: Path, out: Path, title: str = "selfnorm report", paper: bool = True, figures: Path | None = None
) -> list[Table]:
    """Write the page (.html), or the tables alone (.md), or every measurement as one row (.csv); returns the tables.

    `figures` is a folder for every figure as SVG and PNG.
    """
    if out.suffix not in (*PAGE, ".md", ".csv"):
        raise UserError(f"{out}: the report is written as .html, .md or .csv. Choose one of these endings.")
    collected, root = collect(folder), folder.resolve().name
    parts = sections(collected, root, paper, out.suffix in PAGE or figures is not None)
    if out.suffix == ".md":
        write_text(out, markdown(parts))
    elif out.suffix == ".csv":
        write_text(out, tidy(collected.records, studies(collected, root)))
    else:
        write_text(out, _html(title, parts, collected, paper))
    if figures is not None:
        write_figures([figure for part in parts for figure in part.figures], figures)
    return [table for part in parts for table in part.tables]


def markdown(parts: Sequence[Section]) -> str:
    """The tables, section by section."""
    return "\n".join(
        "\n".join([f"## {plain_cell(part.title)}", "", part.about, "", *(table.markdown() for table in part.tables)])
        for part in parts
        if part.tables
    )


def _html(title: str, parts: Sequence[Section], collected: Collected, paper: bool) -> str:
    try:
        from jinja2 import Environment
    except ImportError:
        raise missing_extra("jinja2", "report", "Writing the page") from None
    template = Environment(autoescape=True).from_string(_file("page.html"))
    drawn = any(part.figures for part in parts)
    return template.render(
        title=title,
        version=__version__,
        date=today(),
        machine=machine(),
        css=_file("page.css"),
        js=_file("page.js"),
        library=javascript() if drawn else "",
        themes=_json({kind: config(kind) for kind in ("light", "dark")}),
        summary=summary(collected, paper),
        sections=_with_ids(parts),
        records=collected.records,
    )


def _with_ids(parts: Sequence[Section]) -> list[dict[str, Any]]:
    """The sections for the template; every id occurs once."""
    taken: Counter[str] = Counter()
    return [
        {
            "id": f"section-{place}",
            "title": part.title,
            "about": part.about,
            "figures": [_figure(figure, taken) for figure in part.figures],
            "tables": [{"id": f"table-{place}-{i}", "table": table} for i, table in enumerate(part.tables, 1)],
        }
        for place, part in enumerate(parts, 1)
    ]


def _figure(figure: Figure, taken: Counter[str]) -> dict[str, Any]:
    taken[figure.name] += 1
    count = f"-{taken[figure.name]}" if taken[figure.name] > 1 else ""
    shown = {"title": figure.title, "caption": figure.caption, "alt": figure.alt, "json": _json(figure.spec())}
    return {"id": f"figure-{figure.name}{count}", **shown}


def _json(table: dict[str, Any]) -> str:
    """JSON for a script element: nothing in it can end the element."""
    return json.dumps(table, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _file(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")

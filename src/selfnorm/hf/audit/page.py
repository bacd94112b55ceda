"""An audit as one self-contained page: sentences, tables, and plots of log Z and of what estimates leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from selfnorm._util.errors import missing_extra
from selfnorm._util.files import write_text
from selfnorm.hf.audit.charts import figures
from selfnorm.hf.audit.show import tables
from selfnorm.report.charts.figure import svg

TEMPLATE = Path(__file__).parent / "page.html"


def write_page(found: dict[str, Any], out: Path) -> None:
    try:
        from jinja2 import Environment
    except ImportError:
        raise missing_extra("jinja2", "report", "Writing the page") from None
    template = Environment(autoescape=True).from_string(TEMPLATE.read_text(encoding="utf-8"))
    first, *rest = tables(found)[:4]
    write_text(
        out,
        template.render(
            found=found,
            first=[first, *rest],
            more=tables(found)[4:],
            figures=[{"figure": figure, "svg": svg(figure)} for figure in figures(found)],
        ),
    )

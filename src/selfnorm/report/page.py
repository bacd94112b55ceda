"""One self-contained page from whatever has been measured; also Markdown and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfnorm import __version__
from selfnorm.errors import UserError, missing_extra
from selfnorm.files import write_text
from selfnorm.report import plots
from selfnorm.report.collect import Collected, Record, collect
from selfnorm.report.tables import Table, overview, paper_tables
from selfnorm.results import machine, today

TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title><style>
body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem;border-bottom:1px solid #ddd}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.88rem}
.wide{overflow-x:auto}th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #e5e5e5;white-space:nowrap}
th{background:#f4f4f4}th:first-child,td:first-child{text-align:left}
figure{margin:1rem 0}svg{max-width:100%;height:auto}figcaption,.note{color:#555;font-size:.9rem}
code{background:#f4f4f4;padding:.1rem .3rem;border-radius:3px}details{margin:1rem 0}
</style></head><body>
<h1>{{ title }}</h1>
<p class="note">selfnorm {{ version }}, {{ date }}, {{ machine }}. A model is self-normalized when log Z is near 0 for every context:
μ_z is its mean, σ_z its spread; u_perplexity takes the scores as if they were log-probabilities.</p>
{% for table in tables %}<h2>{{ table.title }}</h2><div class="wide"><table><thead><tr>{% for name in table.head %}<th>{{ name }}</th>{% endfor %}</tr></thead><tbody>
{% for row in table.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>{% for note in table.notes %}<p class="note">{{ note }}</p>{% endfor %}{% endfor %}
{% for figure in figures %}<h2>{{ figure.title }}</h2><figure>{{ figure.svg | safe }}<figcaption>{{ figure.caption }}</figcaption></figure>{% endfor %}
<h2>Signatures</h2><details><summary>What each number is, and the command that made it</summary>
<ul>{% for record in records %}<li><code>{{ record.measured.signature }}</code><br><span class="note">{{ record.measured.command }} ({{ record.measured.date }})</span></li>{% endfor %}</ul></details>
</body></html>
"""


def write_report(folder: Path, out: Path, title: str = "selfnorm report", paper: bool = True) -> list[Table]:
    """Write the page (.html), or the tables alone (.md, .csv); gives the tables."""
    collected = collect(folder)
    tables = [*_paper(collected, paper), *overview(collected.records), *_others(collected)]
    if out.suffix == ".md":
        write_text(out, "\n".join(table.markdown() for table in tables))
    elif out.suffix == ".csv":
        write_text(out, "".join(table.csv() for table in tables))
    elif out.suffix in (".html", ".htm"):
        write_text(out, _html(title, tables, collected))
    else:
        raise UserError(f"{out}: the report is written as .html, .md or .csv. Choose one of these endings.")
    return tables


def _paper(collected: Collected, paper: bool) -> list[Table]:
    known = any(r.parts["data"] in ("ptb", "wikitext-2") and r.parts.get("epochs") == "20" for r in collected.records)
    return paper_tables(collected.records) if paper and known else []


def _others(collected: Collected) -> list[Table]:
    """Results of tasks: each file says its own columns."""
    tables = []
    for kind, results in sorted(collected.others.items()):
        head = list(dict.fromkeys(key for r in results for key in r["row"]))
        tables.append(Table(kind, head, [[str(r["row"].get(key, "")) for key in head] for r in results]))
    return tables


def _html(title: str, tables: Sequence[Table], collected: Collected) -> str:
    try:
        from jinja2 import Environment
    except ImportError:
        raise missing_extra("jinja2", "report", "Writing the page") from None
    template = Environment(autoescape=True).from_string(TEMPLATE)
    return template.render(
        title=title, version=__version__, date=today(), machine=machine(), tables=tables, records=collected.records, figures=_figures(collected)
    )


def _figures(collected: Collected) -> list[dict[str, Any]]:
    figures = []
    if 0 < len(collected.histories) <= 12:
        caption = "Each epoch's validation text, dropout off, state carried."
        figures.append({"title": "Training", "svg": plots.curves(collected), "caption": caption})
    groups = _grouped(collected.records)
    for (data, split), group in groups.items():
        if split == "test" or (data, "test") not in groups:  # the test text where there is one
            figures += _figures_of(f"{data}, {split}", group)
    theory = [r for r in collected.records if r.measured.theory][:3]
    return figures + [{"title": "Theorem 1", "svg": plots.theorem(r), "caption": _theorem_caption(r)} for r in theory]


FIGURE_1 = ("nce", "softmax", "devlin")


def _figures_of(where: str, group: list[Record]) -> list[dict[str, Any]]:
    """The frontier, the histograms of log Z and the paper's figure, for one text."""
    figures = []
    if len(group) > 1:
        caption = "Every model and calibration: across is quality, down is how safe it is to skip log Z."
        figures.append({"title": f"σ_z against perplexity, {where}", "svg": plots.frontier(group, where), "caption": caption})
    widest = max(int(r.parts["d"]) for r in group)
    chosen = [r for r in group if int(r.parts["d"]) == widest and r.calibration in ("none", "mlp")][:8]
    if chosen:
        caption = "A self-normalized model is a spike at 0."
        figures.append({"title": f"log Z, {where}", "svg": plots.log_z_histograms(chosen, where), "caption": caption})
    raw = [r for name in FIGURE_1 for r in chosen if r.parts["criterion"] == name and r.calibration == "none"][:3]
    if raw:
        caption = "The paper's figure: low-entropy predictions are where log Z strays."
        figures.append({"title": f"Entropy and log Z, {where}", "svg": plots.entropy_histogram(raw, where), "caption": caption})
    return figures


def _theorem_caption(record: Record) -> str:
    t = record.measured.theory
    return (
        f"|log Z| ≤ ε holds for {t['theorem_1_holds']:,} of {t['contexts']:,} contexts. "
        f"Theorem 2: |mean log Z| = {t['abs_mu_z']:.4f} ≤ {t['theorem_2_epsilon']:.4f}."
    )


def _grouped(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.parts["data"], record.parts["split"]), []).append(record)
    return groups

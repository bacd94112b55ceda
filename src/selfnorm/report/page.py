"""One self-contained page from whatever has been measured; also Markdown and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfnorm import __version__
from selfnorm._util.errors import UserError, missing_extra
from selfnorm._util.files import write_text
from selfnorm._util.machine import machine, today
from selfnorm.registry.criteria import CRITERIA
from selfnorm.registry.steps import COMPLETION, COST, TIMES
from selfnorm.report import completion, plots
from selfnorm.report.collect import Collected, Record, collect
from selfnorm.report.differences import difference_tables
from selfnorm.report.menu import menus
from selfnorm.report.seeds import seed_tables
from selfnorm.report.tables import Table, examples, overview, paper_tables
from selfnorm.report.tidy import tidy
from selfnorm.report.times import cost_table, times_table

TEMPLATE = Path(__file__).parent / "page.html"


def write_report(folder: Path, out: Path, title: str = "selfnorm report", paper: bool = True) -> list[Table]:
    """Write the page (.html), or the tables alone (.md), or every measurement as one row (.csv); returns the tables."""
    collected = collect(folder)
    first = [*_paper(collected, paper), *menus(collected)]
    more = [
        *seed_tables(collected.records),
        *overview(collected.records),
        *difference_tables(collected.records),
        *examples(collected.records),
        *_others(collected, paper),
        *cost_table(collected.others.get(COST, [])),
    ]
    tables = [*first, *more]
    if out.suffix == ".md":
        write_text(out, "\n".join(table.markdown() for table in tables))
    elif out.suffix == ".csv":
        write_text(out, tidy(collected.records))
    elif out.suffix in (".html", ".htm"):
        write_text(out, _html(title, first, more, collected))
    else:
        raise UserError(f"{out}: the report is written as .html, .md or .csv. Choose one of these endings.")
    return tables


def _paper(collected: Collected, paper: bool) -> list[Table]:
    known = any(r.parts["data"] in ("ptb", "wikitext-2") and r.parts.get("epochs") == "20" for r in collected.records)
    tables = paper_tables(collected.records) if paper and known else []
    completed = [r for r in collected.others.get(COMPLETION, []) if completion.of_the_challenge(r)]
    timed = collected.others.get(TIMES, [])
    if paper and (known or completed):
        tables.append(completion.completion_table(completed))
    return [*tables, times_table(timed)] if timed or (paper and known) else tables


def _others(collected: Collected, paper: bool) -> list[Table]:
    """Results of tasks: each file says its own columns. Those of the paper's challenge have their table above."""
    tables = []
    for kind, every in sorted(collected.others.items()):
        results = [r for r in every if not (paper and kind == COMPLETION and completion.of_the_challenge(r))]
        if not results or kind in (TIMES, COST):
            continue
        head = list(dict.fromkeys(key for r in results for key in r["row"]))
        tables.append(Table(kind, head, [[str(r["row"].get(key, "")) for key in head] for r in results]))
    return tables


def _html(title: str, first: Sequence[Table], more: Sequence[Table], collected: Collected) -> str:
    """What was asked for, then pictures, then every number."""
    try:
        from jinja2 import Environment
    except ImportError:
        raise missing_extra("jinja2", "report", "Writing the page") from None
    template = Environment(autoescape=True).from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        title=title,
        version=__version__,
        date=today(),
        machine=machine(),
        first=first,
        more=more,
        records=collected.records,
        figures=_figures(collected),
    )


def _figures(collected: Collected) -> list[dict[str, Any]]:
    groups = _grouped(collected.records)
    figures: list[dict[str, Any]] = []
    for (data, split), group in groups.items():
        if split == "test" or (data, "test") not in groups:  # the test text where there is one
            figures += _figures_of(f"{data}, {split}", group)
    figures += [figure for data in dict.fromkeys(data for data, _ in groups) for figure in _training(data, collected)]
    theory = [r for r in collected.records if r.measured.theory][:3]
    return figures + [{"title": "Theorem 1", "svg": plots.theorem(r), "caption": _theorem_caption(r)} for r in theory]


def _training(data: str, collected: Collected) -> list[dict[str, Any]]:
    """How the runs on one text were trained."""
    runs = {r.run: r.parts["criterion"] for r in collected.records if r.parts["data"] == data}
    histories = {run: lines for run, lines in collected.histories.items() if run in runs and lines}
    if not histories:
        return []
    caption = "Each epoch's validation text, dropout off, state carried."
    if len(histories) > plots.CURVES:
        caption += f" The {plots.CURVES} runs of lowest perplexity out of {len(histories)}."
    return [{"title": f"Training, {data}", "svg": plots.curves(histories, runs), "caption": caption}]


def _figures_of(where: str, group: list[Record]) -> list[dict[str, Any]]:
    """The frontier of each size, the histograms of log Z and the paper's figure, for one text."""
    figures = []
    for d in sorted({int(r.parts["d"]) for r in group}):
        same = [r for r in group if int(r.parts["d"]) == d]
        if len({r.run for r in same}) > 1:
            caption = (
                "Every model and calibration: across is quality, down is how safe it is to skip log Z. What is normalized by "
                "construction has σ_z = 0 and is drawn at 0.0001."
            )
            title = f"{where}, d = {d}"
            svg = plots.frontier(same, title)
            figures.append({"title": f"σ_z against perplexity, {title}", "svg": svg, "caption": caption})
    chosen = _shown(group)
    if chosen:
        caption = f"A self-normalized model is a spike at 0. d = {chosen[0].parts['d']}; at most four criteria, each with its best model."
        figures.append({"title": f"log Z, {where}", "svg": plots.log_z_histograms(chosen, where), "caption": caption})
    raw = figure_1(group)
    if raw:
        caption = _entropy_caption(raw)
        figures.append(
            {
                "title": f"Entropy and log Z, {where}",
                "svg": plots.entropy_histogram(raw, where),
                "caption": caption,
            }
        )
    return figures


def _entropy_caption(records: Sequence[Record]) -> str:
    """What the figure shows, from the numbers: nothing is said that they do not say."""
    pairs = [(int(r.parts["d"]), r.measured.correlation) for r in records]
    shown = ", ".join(f"{value:+.2f} at d = {d}" for d, value in pairs)
    return f"Entropy of the prediction against log Z, as in the paper's Figure 1. Correlation: {shown}."


def _shown(group: Sequence[Record], most: int = 4) -> list[Record]:
    """For the histograms: the best of each criterion, raw and after mlp, at the d with most criteria; the paper's first."""
    criteria = {
        d: len({r.parts["criterion"] for r in group if r.parts["d"] == d}) for d in {r.parts["d"] for r in group}
    }
    widest = int(max(criteria, key=lambda d: (criteria[d], int(d))))
    best: dict[str, Record] = {}
    for r in sorted(group, key=lambda r: r.measured.perplexity):
        if int(r.parts["d"]) == widest and r.calibration == "none" and r.measured.histogram:
            best.setdefault(r.parts["criterion"], r)
    names = sorted(best, key=lambda name: list(CRITERIA).index(name) if name in CRITERIA else len(CRITERIA))[:most]
    runs = [best[name].run for name in names]
    return [
        r for run in runs for r in group if r.run == run and r.calibration in ("none", "mlp") and r.measured.histogram
    ]


def figure_1(group: Sequence[Record]) -> list[Record]:
    """NCE-LM at three sizes, as the paper has it; while there is one size only, NCE-LM, SM-LM and DEV-LM of that size."""
    raw = [r for r in group if r.calibration == "none" and r.measured.entropy_histogram]
    raw.sort(key=lambda r: (-len(r.extras) - bool(r.unusual_k), -r.measured.perplexity))  # the last is shown
    sizes = {int(r.parts["d"]): r for r in raw if r.parts["criterion"] == "nce"}
    if len(sizes) > 1:
        ds = sorted(sizes)
        return [sizes[d] for d in sorted({ds[0], ds[len(ds) // 2], ds[-1]})]
    widest = max((int(r.parts["d"]) for r in raw), default=0)
    same = {r.parts["criterion"]: r for r in raw if int(r.parts["d"]) == widest}
    return [same[name] for name in ("nce", "softmax", "devlin") if name in same]


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

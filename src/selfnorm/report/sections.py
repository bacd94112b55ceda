"""The order of the page: the paper, then every text, then every study, then tasks and costs; what was not run comes last."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from selfnorm.registry.steps import COMPLETION, COST, TIMES
from selfnorm.report import completion
from selfnorm.report.charts.entropy import entropy
from selfnorm.report.charts.estimators import estimators
from selfnorm.report.charts.factors import along
from selfnorm.report.charts.figure import Figure
from selfnorm.report.charts.frontier import frontier
from selfnorm.report.charts.log_z import log_z
from selfnorm.report.charts.theorem import theorem
from selfnorm.report.charts.training import training
from selfnorm.report.collect import Collected, Record
from selfnorm.report.differences import difference_tables
from selfnorm.report.factors import Factors, studies
from selfnorm.report.menu import menus
from selfnorm.report.number import number
from selfnorm.report.paper import missing_table, paper_tables
from selfnorm.report.seeds import seed_tables
from selfnorm.report.sizes import size_tables
from selfnorm.report.study_tables import factor_differences, factor_table, pivots
from selfnorm.report.table import Table
from selfnorm.report.tables import by_text, examples, overview
from selfnorm.report.times import cost_table, times_table


@dataclass(frozen=True)
class Section:
    """A part of the page that opens and closes: one line about it, then figures and tables."""

    title: str
    about: str
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)


def sections(collected: Collected, root: str, paper: bool, figures: bool) -> list[Section]:
    """Everything that was measured. Without `figures` nothing is drawn and no drawing library is needed."""
    runs = Counter(text for text, _ in {(r.text, r.run) for r in collected.records})
    parts = [
        *_paper(collected, paper),
        *(_text(text, collected, figures) for text in sorted(runs, key=lambda text: (-runs[text], text))),
        *(_study(study, figures) for study in studies(collected, root)),
        *_tasks(collected, paper),
        *_costs(collected, paper),
        *_not_run(collected, paper),
    ]
    return [part for part in parts if part.tables or part.figures]


def known(collected: Collected) -> bool:
    """Are there runs that may be cells of the paper?"""
    return any(r.parts["data"] in ("ptb", "wikitext-2") and r.parts.get("epochs") == "20" for r in collected.records)


def _challenge(collected: Collected) -> list[dict[str, object]]:
    return [r for r in collected.others.get(COMPLETION, []) if completion.of_the_challenge(r)]


def _paper(collected: Collected, paper: bool) -> list[Section]:
    tables = paper_tables(collected.records) if paper and known(collected) else []
    if paper and _challenge(collected):
        tables.append(completion.completion_table(_challenge(collected)))
    rows = sum(len(table.rows) for table in tables)
    return [Section("The paper's tables", f"{rows} rows: paper, ours and the difference.", tables)]


def _not_run(collected: Collected, paper: bool) -> list[Section]:
    tables = [missing_table(collected.records)] if paper and known(collected) else []
    if paper and known(collected) and not _challenge(collected):
        tables.append(completion.completion_table([]))
    rows = sum(len(table.rows) for table in tables)
    return [Section("Not run", f"{rows} cells of the paper, each with its command.", [t for t in tables if t.rows])]


def _text(text: str, collected: Collected, figures: bool) -> Section:
    records = [r for r in collected.records if r.text == text]
    mine = Collected(records, collected.histories, collected.others, collected.settings, collected.calibrations)
    tables = [*menus(mine), *seed_tables(records), *size_tables(records), *overview(records)]
    tables += [*difference_tables(records), *examples(records)]
    runs = len({r.run for r in records})
    best = min(records, key=lambda r: r.measured.perplexity)
    lowest = f"lowest perplexity {number(best.measured.perplexity, 1)} ({best.name}, {best.parts['split']})"
    about = f"{runs} {'run' if runs == 1 else 'runs'}; {lowest}."
    return Section(f"Text: {text}", about, tables, _figures(text, records, mine) if figures else [])


def _figures(text: str, records: list[Record], collected: Collected) -> list[Figure]:
    """The figures of one text: on its test split where that was measured."""
    groups = by_text(records)
    drawn: list[Figure | None] = []
    for (_, split), group in groups.items():
        if split == "test" or (text, "test") not in groups:
            where = f"{text}, {split}"
            drawn += [
                frontier(group, where),
                log_z(group, where),
                entropy(group, where),
                estimators(group, collected, where),
            ]
    drawn.append(training(records, collected, text))
    drawn += [theorem(r) for r in [r for r in records if r.measured.theory][:3]]
    return [figure for figure in drawn if figure is not None]


def _study(study: Factors, figures: bool) -> Section:
    tables = [factor_table(study)]
    drawn: list[Figure] = []
    for factor in study.varied():
        tables += [*pivots(study, factor), *factor_differences(study, factor)]
        one = along(study, factor) if figures else None
        drawn += [one] if one else []
    count = f"{len(study.records)} runs on {study.where}"
    return Section(f"Study {study.name}: {study.title}" if study.title != study.name else f"Study {study.name}",
                   f"{count}; factors: {', '.join(study.names)}.", tables, drawn)  # fmt: skip


def _tasks(collected: Collected, paper: bool) -> list[Section]:
    """Results of tasks: each file says its own columns. Those of the paper's challenge have their table above."""
    tables = []
    for kind, every in sorted(collected.others.items()):
        results = [r for r in every if not (paper and kind == COMPLETION and completion.of_the_challenge(r))]
        if results and kind not in (TIMES, COST):
            head = list(dict.fromkeys(key for r in results for key in r["row"]))
            tables.append(Table(kind, head, [[str(r["row"].get(key, "")) for key in head] for r in results]))
    return [Section("Tasks", "Rescoring, completion and mixtures.", tables)]


def _costs(collected: Collected, paper: bool) -> list[Section]:
    timed = collected.others.get(TIMES, [])
    tables = [times_table(timed)] if timed or (paper and known(collected)) else []
    return [Section("Time and memory", "Scoring with and without log Z, and training steps.",
                    [*tables, *cost_table(collected.others.get(COST, []))])]  # fmt: skip

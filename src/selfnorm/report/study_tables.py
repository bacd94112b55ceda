"""Tables of a study: a column for each factor, a pivot for each factor, and differences along it with intervals."""

from __future__ import annotations

from selfnorm.report.differences import GAPS, NOTES, gaps
from selfnorm.report.factors import Factors
from selfnorm.report.number import digits_of, interval, number
from selfnorm.report.table import Table

NUMBERS = ("perplexity", "sigma_z")
WIDEST = 8  # columns of a pivot


def factor_table(study: Factors) -> Table:
    """Every run: a column for each factor, then its numbers."""
    rows = []
    for r in sorted(study.records, key=lambda r: r.measured.perplexity):
        m = r.measured
        numbers = [
            number(m.perplexity, 2), interval(m.intervals.get("perplexity"), 1), number(m.sigma_z, 4),
            interval(m.intervals.get("sigma_z"), digits_of(m.sigma_z)), number(m.mu_z, 3, sign=True), number(m.u_perplexity, 2),
        ]  # fmt: skip
        rows.append([*(study.value(r, name) for name in study.names), *numbers])
    head = [*study.names, "perplexity", "perplexity 95 %", "sigma_z", "sigma_z 95 %", "mu_z", "u_perplexity"]
    return Table(f"{study.name}: every run, {study.where}", head, rows)


def pivots(study: Factors, factor: str) -> list[Table]:
    """Perplexity and sigma_z by this factor and by the others, where runs differ in nothing else."""
    groups = study.groups(factor)
    if not groups:
        return []
    others, shown = study.rest_of(factor)
    values = [v for v in study.values(factor) if any(v in runs for runs in groups.values())]
    names = [", ".join(f"{others[p]} = {rest[p]}" for p in shown) for rest in groups]
    tables = []
    for name in NUMBERS:
        cells = {
            (place, value): number(getattr(runs[value].measured, name), 4 if name == "sigma_z" else 2)
            if value in runs
            else ""
            for place, runs in enumerate(groups.values())
            for value in values
        }
        across = len(names) <= WIDEST or len(names) < len(values)
        title = f"{study.name}: {name} by {factor}, {study.where}"
        if across:
            rows = [[value, *(cells[place, value] for place in range(len(names)))] for value in values]
            tables.append(Table(title, [factor, *(own or name for own in names)], rows))
        else:
            head = [*(others[p] for p in shown), *(f"{factor} = {value}" for value in values)]
            rows = [
                [*(rest[p] for p in shown), *(cells[place, v] for v in values)] for place, rest in enumerate(groups)
            ]
            tables.append(Table(title, head, rows))
    return tables


def factor_differences(study: Factors, factor: str) -> list[Table]:
    """What a change of this factor alone does: against its default where that was run, else against its first value."""
    others = [name for name in study.names if name != factor]
    rows = []
    for rest, runs in study.groups(factor).items():
        ordered = [value for value in study.values(factor) if value in runs]
        default = study.defaults.get(factor, "")
        reference = default if default in runs else ordered[0]
        first = runs[reference].measured
        for value in ordered:
            mine = runs[value].measured
            same_words = mine.blocks and len(mine.blocks) == len(first.blocks) and mine.words == first.words
            if value != reference and same_words:
                rows.append([*rest, reference, value, *gaps(runs[value], runs[reference])])
    if not rows:
        return []
    kept = [i for i in range(len(others)) if len({row[i] for row in rows}) > 1]
    start = len(others)
    rows = [[*(row[i] for i in kept), *row[start:]] for row in rows]
    head = [*(others[i] for i in kept), f"{factor} from", "to", *GAPS]
    return [Table(f"{study.name}: differences along {factor}, {study.where}", head, rows, NOTES)]

"""How sigma_z changes with the size of the model: one row a model, one column a size, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from selfnorm.report.collect import Record, is_of_text
from selfnorm.report.number import digits_of, interval, number
from selfnorm.report.paper import PRECISION
from selfnorm.report.table import Table
from selfnorm.report.tables import by_text

NOTE = "grows: of so many steps from one size to the next, those where sigma_z grows and the two 95 % intervals do not overlap."


def size_tables(records: Sequence[Record]) -> list[Table]:
    """One table per text and split where a model was trained, for as many epochs, with more than one d."""
    tables = []
    for (text, split), group in by_text([r for r in records if r.calibration == "none"]).items():
        models: dict[tuple[str, ...], dict[int, list[Record]]] = {}
        for r in sorted(group, key=lambda r: (r.measured.seed, r.run)):
            models.setdefault(_model(r), {}).setdefault(int(r.parts["d"]), []).append(r)
        several = {model: sizes for model, sizes in sorted(models.items()) if len(sizes) > 1}
        if several:
            every = sorted({d for sizes in several.values() for d in sizes})
            head = ["model", "k", "epochs", *(f"d = {d}" for d in every), "grows"]
            rows = [
                [*model, *("; ".join(map(_cell, sizes.get(d, []))) for d in every), _grows(sizes)]
                for model, sizes in several.items()
            ]
            tables.append(Table(f"sigma_z by size: {text}, {split}", head, rows, [NOTE]))
    return tables


def _model(r: Record) -> tuple[str, ...]:
    """What a row stands for: everything of a run that matters to its numbers except d, the seed and how products were rounded."""
    extras = [extra for extra in r.extras if extra not in PRECISION and not is_of_text(extra)]
    return ", ".join([r.name, *extras]), r.k, r.parts.get("epochs", "–")


def _cell(r: Record) -> str:
    sigma = r.measured.sigma_z
    bounds = interval(r.measured.intervals.get("sigma_z"), digits_of(sigma))
    return number(sigma, digits_of(sigma)) + (f" ({bounds})" if bounds else "")


def _grows(sizes: dict[int, list[Record]]) -> str:
    """Of how many steps the interval at the larger size is above the one at the smaller; every run of both must agree."""
    bounds = [[r.measured.intervals.get("sigma_z") for r in runs] for _, runs in sorted(sizes.items())]
    if not all(pair for pairs in bounds for pair in pairs):
        return ""
    steps = [
        all(low[1] < high[0] for low in smaller for high in larger if low and high)
        for smaller, larger in pairwise(bounds)
    ]
    return f"{sum(steps)} of {len(steps)}"

"""A study's numbers along one of its factors, with 95 % intervals."""

from __future__ import annotations

from typing import Any

from selfnorm.report.charts.figure import (
    Chart,
    Figure,
    Rows,
    layer,
    legend_filter,
    names,
    panel,
    quantity,
    tips,
    when,
    zoom,
)
from selfnorm.report.charts.theme import COLOURS, ZOOM
from selfnorm.report.factors import Factors, is_number

NUMBERS = {"perplexity": "perplexity", "sigma_z": "σ_z"}
TINY = 1e-6


def along(study: Factors, factor: str) -> Figure | None:
    """Perplexity and sigma_z at every value of the factor; runs of one colour differ in nothing else."""
    groups = study.groups(factor)
    if not groups:
        return None
    rows = [
        row
        for rest, runs in groups.items()
        for value, record in runs.items()
        for row in [_row(study, factor, rest, value, record)]
    ]
    panels = [_panel(rows, factor, study.values(factor), field) for field in NUMBERS]
    caption = f"Points of one colour differ in this factor alone; bars are 95 % intervals over blocks of text. {ZOOM}"
    described = f"Perplexity and σ_z along {factor} = {', '.join(study.values(factor))} in the study {study.name}, {study.where}."
    return Figure(f"{study.name}: {factor}, {study.where}", caption, described, panels, shared=("color",))


def _row(study: Factors, factor: str, rest: tuple[str, ...], value: str, record: Any) -> dict[str, Any]:
    m = record.measured
    others, differ = study.rest_of(factor)
    parts = [f"{others[p].partition('.')[2]} = {rest[p]}" if is_number(rest[p]) else rest[p] for p in differ]
    shown = ", ".join(parts) or "all others fixed"
    ends = {name: m.intervals.get(name, (getattr(m, name),) * 2) for name in NUMBERS}
    bounds = {f"{name}_{end}": pair[i] for name, pair in ends.items() for i, end in enumerate(("low", "high"))}
    return {
        "run": record.run,
        "value": value,
        "rest": shown,
        "perplexity": m.perplexity,
        "sigma_z": m.sigma_z,
        **bounds,
    }


def _panel(rows: Rows, factor: str, order: list[str], field: str) -> Chart:
    """A row for each value: words of any length have room, also on a phone."""
    rest = list(dict.fromkeys(row["rest"] for row in rows))
    few = len(rest) <= len(COLOURS)
    legend = {"legend": {"columns": 2} if len(rest) > 1 else None}
    colour: Chart = names("rest", None, rest, COLOURS[: len(rest)]) | legend if few else {"value": COLOURS[0]}
    log, title = field == "sigma_z", NUMBERS[field]
    x, low = quantity(field, title, log=log), quantity(f"{field}_low", title, log=log)
    y = {"field": "value", "type": "nominal", "sort": order, "title": factor}
    same = {"y": y, "color": colour}
    pale = {**same, "opacity": when(["only_rest"], 0.5, 0.05)}
    place = {"field": "place", "type": "quantitative"}
    lines = layer("line", {"x": x, **pale, "detail": names("rest"), "order": place}, strokeWidth=1)
    bars = layer("rule", {"x": low, "x2": {"field": f"{field}_high"}, **pale}, strokeWidth=2)
    pick = (
        legend_filter("rest")
        if few and len(rest) > 1
        else {"name": "only_rest", "select": {"type": "point", "fields": ["rest"]}}
    )
    tip = tips("value", "rest", "perplexity:Q", "sigma_z:Q", "run", value=factor, rest="others")
    marks = {"x": x, **same, "opacity": when(["only_rest"], 1, 0.08), "tooltip": tip}
    dots = layer("point", marks, [*([pick] if field == "perplexity" else []), zoom(field, "x")], filled=True, size=55)
    shown = [{**row, "place": order.index(row["value"])} for row in rows if not log or row[field] > TINY]
    joined = [lines] if all(is_number(value) for value in order) else []  # between words there is no way
    return panel(shown, 400, max(90, 24 * len(order)), [*joined, bars, dots], title)

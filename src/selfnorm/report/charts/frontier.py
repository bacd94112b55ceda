"""sigma_z against perplexity, before and after calibration: small multiples per size, with labels on the points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from selfnorm.report.charts.figure import Chart, Figure, layer, legend_filter, names, panel, quantity, tips, when, zoom
from selfnorm.report.charts.labels import pixels, place
from selfnorm.report.charts.theme import SHAPES, ZOOM, group, group_scale
from selfnorm.report.collect import Record, name_beside
from selfnorm.report.number import number

WIDTH, HEIGHT = 400, 380
FLOOR = 1e-4  # where sigma_z = 0 is drawn on a logarithmic axis
LEFT_OUT = ("shift",)  # a constant does not change sigma_z


def frontier(records: Sequence[Record], where: str) -> Figure | None:
    """One panel per size with more than one model; nothing where no size has."""
    drawn = [r for r in records if r.calibration not in LEFT_OUT]
    sizes = [d for d in _sizes(drawn) if len({r.run for r in drawn if r.parts["d"] == d}) > 1]
    if not sizes:
        return None
    kinds = [k for k in SHAPES if any(r.calibration == k for r in drawn)]
    panels = [_panel([r for r in drawn if r.parts["d"] == d], drawn, kinds, first=d == sizes[0]) for d in sizes]
    caption = (
        "Every model, as trained and after calibration; a grey line joins the two. Left is better prediction, down is a log Z that "
        f"can be skipped more safely. Normalized by construction (σ_z = 0) is drawn at {FLOOR:g}. {ZOOM}"
    )
    described = f"σ_z against perplexity of {len({r.run for r in drawn})} models on {where}. {_extremes(drawn)}"
    return Figure(f"σ_z against perplexity: {where}", caption, described, panels, shared=("color", "shape"))


def _sizes(records: Sequence[Record]) -> list[str]:
    return sorted({r.parts["d"] for r in records}, key=int)


def _extremes(records: Sequence[Record]) -> str:
    best = min(records, key=lambda r: r.measured.perplexity)
    flat = min((r for r in records if r.calibration == "none"), key=lambda r: r.measured.sigma_z, default=best)
    return (
        f"Lowest perplexity: {best.name}, {number(best.measured.perplexity, 1)}. "
        f"Lowest σ_z as trained: {flat.name}, {number(flat.measured.sigma_z, 3)}."
    )


def rows(records: Sequence[Record], beside: Sequence[Record]) -> list[dict[str, Any]]:
    """The points of a panel; labels are placed for the raw models, best perplexity first."""
    ordered = sorted(records, key=lambda r: (r.calibration != "none", r.measured.perplexity))
    low, high = _domain([r.measured.perplexity for r in ordered])
    spots = [
        (
            pixels(r.measured.perplexity, low, high, WIDTH),
            HEIGHT - pixels(max(r.measured.sigma_z, FLOOR), *_spread(beside), HEIGHT, log=True),
        )
        for r in ordered
    ]
    models = [name_beside(r, beside) + r.unusual_k for r in ordered]
    labels = place(spots, [n for n, r in zip(models, ordered, strict=True) if r.calibration == "none"], WIDTH, HEIGHT)
    found = []
    for i, (r, name) in enumerate(zip(ordered, models, strict=True)):
        label, m = labels[i] if i < len(labels) else None, r.measured
        found.append({
            "run": r.run, "model": name, "group": group(r), "calibration": r.calibration, "d": int(r.parts["d"]),
            "perplexity": m.perplexity, "sigma_z": m.sigma_z, "drawn": max(m.sigma_z, FLOOR), "mu_z": m.mu_z,
            "u_perplexity": m.u_perplexity, "label": name if label and label.align else "",
            "dx": label.dx if label else 0, "dy": label.dy if label else 0, "align": label.align if label else "",
        })  # fmt: skip
    return found


def _domain(numbers: Sequence[float]) -> tuple[float, float]:
    low, high = min(numbers), max(numbers)
    edge = 0.06 * (high - low) or 0.05 * high
    return low - edge, high + edge


def _spread(records: Sequence[Record]) -> tuple[float, float]:
    numbers = [max(r.measured.sigma_z, FLOOR) for r in records]
    return min(numbers) / 1.6, max(numbers) * 1.6


def _panel(records: list[Record], beside: list[Record], kinds: list[str], first: bool) -> Chart:
    d = records[0].parts["d"]
    x = quantity("perplexity", "perplexity (exact)", domain=list(_domain([r.measured.perplexity for r in records])))
    y = quantity("drawn", "σ_z", log=True, domain=list(_spread(beside)))
    shown = when(["only_group", "only_calibration"], 1, 0.08)
    colour = group_scale(beside)
    look = {
        "color": names("group", None, colour["domain"], colour["range"]),
        "shape": names("calibration", "calibration", kinds, [SHAPES[k] for k in kinds]),
    }
    filters = [legend_filter("group"), legend_filter("calibration")] if first else []
    lines = layer("line", {"x": x, "y": y, "detail": names("run")}, color="#999999", opacity=0.5, strokeWidth=1)
    marks = {"x": x, "y": y, **look, "opacity": shown, "tooltip": tips(*TIPS)}
    points = layer("point", marks, [*filters, zoom(f"d{d}")], size=75, strokeWidth=1.8)
    where: Chart = {"dx": {"expr": "datum.dx"}, "dy": {"expr": "datum.dy"}, "align": {"expr": "datum.align || 'left'"}}
    words = layer("text", {"x": x, "y": y, "text": names("label"), "opacity": shown}, (), fontSize=10, **where)
    return panel(rows(records, beside), WIDTH, HEIGHT, [lines, points, words], f"d = {d}")


TIPS = ("model", "calibration", "perplexity:Q", "u_perplexity:Q", "sigma_z:Q", "mu_z:Q", "d:Q", "run")

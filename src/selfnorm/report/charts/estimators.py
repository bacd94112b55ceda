"""What an estimate of log Z costs against the spread that it leaves: the frontier of the calibrations."""

from __future__ import annotations

from collections.abc import Sequence

from selfnorm.registry.calibrations import multiply_adds
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
from selfnorm.report.charts.theme import SHAPES, ZOOM, group, group_scale
from selfnorm.report.collect import Collected, Record, name_beside

FLOOR = 1e-4


def vocabularies(collected: Collected) -> dict[str, int]:
    """The size of the vocabulary by text, from the results of `times` and `cost`, which store it."""
    sizes = {t["run"]: int(t["V"]) for kind in collected.others.values() for t in kind if "V" in t}
    return {r.text: sizes[r.run] for r in collected.records if r.run in sizes}


def points(records: Sequence[Record], collected: Collected) -> Rows:
    """Calibrated models whose cost is known, with the share of the exact log Z's multiply-adds that they take."""
    sizes, found = vocabularies(collected), []
    kinds = {r.run for r in records if r.calibration not in ("none", "shift")}
    several = [r for r in records if r.run in kinds and r.text in sizes]
    for r in several:
        facts = collected.calibrations.get(r.run, {}).get(r.calibration, {})
        cost = multiply_adds(r.calibration, int(r.parts["d"]), facts)
        if cost is not None:
            share = cost / (int(r.parts["d"]) * sizes[r.text])
            found.append({
                "run": r.run, "model": name_beside(r, several) + r.unusual_k, "d": int(r.parts["d"]), "group": group(r), "share": share,
                "calibration": r.calibration, "sigma_z": r.measured.sigma_z, "drawn": max(r.measured.sigma_z, FLOOR),
            })  # fmt: skip
    return found


def estimators(records: Sequence[Record], collected: Collected, where: str) -> Figure | None:
    """sigma_z left against cost, one line per model; nothing where no cost is known."""
    rows = points(records, collected)
    if len({row["share"] for row in rows}) < 2:
        return None
    drawn = [r for r in records if r.run in {row["run"] for row in rows}]
    caption = (
        "0 is no work (shift and affine fold into the output layer), 1 is the exact log Z. One line per model; down and left is better. "
        + ZOOM
    )
    described = (
        f"σ_z left by each calibration on {where} against its share of the exact log Z's multiply-adds. {_best(rows)}"
    )
    title = f"Cost of the estimate: {where}"
    return Figure(title, caption, described, [draw(rows, group_scale(drawn))], columns=1)


def _best(rows: Rows) -> str:
    best = min((row for row in rows if row["calibration"] != "none"), key=lambda row: row["sigma_z"])
    return f"Lowest: {best['model']} with {best['calibration']}, σ_z {best['sigma_z']:.2g} for {100 * best['share']:.2g} %."


def draw(rows: Rows, colours: dict[str, list[str]]) -> Chart:
    """Rows of run, model, group, calibration, share and sigma_z as a panel."""
    kinds = [k for k in SHAPES if any(row["calibration"] == k for row in rows)]
    only = ["only_group", "only_calibration"]
    axis = {"values": [0, 0.01, 0.03, 0.1, 0.3, 1], "format": "~g"}
    share = quantity(
        "share", "share of the exact log Z's multiply-adds", type="symlog", constant=0.01, domain=[-0.001, 1]
    )
    place = {"x": {**share, "axis": axis}, "y": quantity("drawn", "σ_z left", log=True, nice=True)}
    colour = names("group", None, colours["domain"], colours["range"])
    shape = names("calibration", "calibration", kinds, [SHAPES[k] for k in kinds])
    order = {"field": "share", "type": "quantitative"}
    lines = layer(
        "line",
        {**place, "detail": names("run"), "order": order, "color": colour, "opacity": when(only, 0.35, 0.04)},
        strokeWidth=1,
    )
    tip = tips("model", "calibration", "share:Q", "sigma_z:Q", "run")
    params = [legend_filter("group"), legend_filter("calibration"), zoom("cost")]
    marks = {**place, "color": colour, "shape": shape, "opacity": when(only, 0.95, 0.06), "tooltip": tip}
    return panel(rows, 560, 340, [lines, layer("point", marks, params, size=70, strokeWidth=1.8)])

"""|log Z| against Theorem 1's epsilon, where the truth is known: no point may lie above the line."""

from __future__ import annotations

from selfnorm.report.charts.figure import Figure, layer, panel, quantity, tips, zoom
from selfnorm.report.charts.theme import COLOURS
from selfnorm.report.collect import Record


def theorem(record: Record) -> Figure:
    """The contexts of one model of the synthetic language."""
    t = record.measured.theory
    rows = [{"epsilon": float(e), "abs_log_z": float(z)} for e, z in t["points"]]
    top = 1.05 * max((*(row["epsilon"] for row in rows), *(row["abs_log_z"] for row in rows)), default=1.0)
    place = {"x": quantity("epsilon", "ε of Theorem 1"), "y": quantity("abs_log_z", "|log Z|")}
    line = layer("line", place, color="#999999")
    line["data"] = {"values": [{"epsilon": 0, "abs_log_z": 0}, {"epsilon": top, "abs_log_z": top}]}
    marks = {**place, "tooltip": tips("epsilon:Q", "abs_log_z:Q")}
    dots = layer("point", marks, [zoom("theorem")], filled=True, opacity=0.6, color=COLOURS[0])
    held = f"|log Z| ≤ ε holds for {t['theorem_1_holds']:,} of {t['contexts']:,} contexts."
    second = f"Theorem 2: |mean log Z| = {t['abs_mu_z']:.4f} ≤ {t['theorem_2_epsilon']:.4f}."
    panels = [panel(rows, 460, 320, [line, dots])]
    title = f"Theorem 1: {record.full_name}, d = {record.parts['d']}, {record.parts['split']}, {record.calibration}"
    return Figure(
        title, f"{held} {second} The line is |log Z| = ε.", f"|log Z| against ε of Theorem 1. {held}", panels, columns=1
    )

"""Benchmarks: time against the vocabulary, one panel per d, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from selfnorm.report.charts.figure import Figure, layer, names, panel, quantity
from selfnorm.report.charts.theme import COLOURS, DASHES


def against_v(rows: Sequence[dict[str, Any]], key: str, title: str) -> Figure:
    """Milliseconds by criterion and V."""
    unit = "ms per 1,000 words" if "1000" in key else "ms per step"
    criteria = list(dict.fromkeys(row["criterion"] for row in rows))
    looks = [(COLOURS[i % len(COLOURS)], DASHES[(i + i // len(COLOURS)) % len(DASHES)]) for i in range(len(criteria))]
    encoding = {
        "x": {**quantity("V", "V (words)", log=True), "axis": {"format": "~s"}},
        "y": quantity("ms", unit, log=True),
        "color": names("criterion", None, criteria, [colour for colour, _ in looks]),
        "strokeDash": names("criterion", None, criteria, [dash for _, dash in looks]),
    }
    panels = []
    for d in sorted({row["d"] for row in rows}):
        mine = [{"criterion": r["criterion"], "V": r["V"], "ms": 1000 * r[key]} for r in rows if r["d"] == d]
        panels.append(panel(mine, 330, 300, [layer("line", encoding, point=True)], f"d = {d}"))
    described = f"{unit} against the vocabulary for {', '.join(criteria)}."
    return Figure(title, "", described, panels, columns=3, shared=("color", "strokeDash"))

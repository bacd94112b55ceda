"""Colours, marks and fonts of every figure, light and dark.

Okabe and Ito's colours, which colour-blind readers can tell apart; shapes and dashes repeat every distinction.
"""

from __future__ import annotations

from typing import Any

from selfnorm.report.collect import Record

GROUPS = {  # what a criterion does to log Z
    "yes": ("pulls log Z to 0", "#0072B2"),
    "constant": ("pulls log Z to a constant", "#E69F00"),
    "no": ("leaves log Z free", "#D55E00"),
    "normalized": ("normalized by construction", "#009E73"),
    "?": ("unknown criterion", "#777777"),
}
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777"]
DASHES = [[1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [10, 4], [4, 4], [1, 3]]
SHAPES = {
    "none": "circle",
    "shift": "triangle-down",
    "affine": "square",
    "mlp": "diamond",
    "screen": "cross",
    "int8": "triangle-up",
}
INK = {"light": ("#1a1a1a", "#595959", "#e3e3e3"), "dark": ("#f0f0f0", "#b8b8b8", "#3a3a3a")}  # text, lesser text, grid
ZOOM = "Hover for the numbers. Click a legend entry to show it alone, Shift-click for several. Drag to move, Shift and wheel to zoom."


def group(record: Record) -> str:
    """The legend's words for what the criterion of a record does to log Z."""
    return GROUPS.get(record.pins, GROUPS["?"])[0]


def group_scale(records: list[Record]) -> dict[str, list[str]]:
    """Domain and range of the colours of the groups that occur."""
    pins = {r.pins if r.pins in GROUPS else "?" for r in records}
    known = [words for key, words in GROUPS.items() if key in pins]
    return {"domain": [words for words, _ in known], "range": [colour for _, colour in known]}


def config(kind: str = "light") -> dict[str, Any]:
    """Vega-Lite's configuration for a light or a dark page."""
    text, lesser, grid = INK[kind]
    words = {
        "labelColor": lesser,
        "titleColor": text,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    return {
        "background": "#ffffff" if kind == "light" else "#161616",
        "font": "system-ui, 'DejaVu Sans', sans-serif",
        "view": {"stroke": grid},
        "axis": {**words, "gridColor": grid, "domainColor": lesser, "tickColor": lesser},
        "legend": {**words, "orient": "top", "columns": 4, "labelLimit": 320, "symbolStrokeWidth": 2},
        "title": {"color": text, "fontSize": 13, "anchor": "start"},
        "header": words,
        "text": {"color": text},
        "rule": {"color": lesser},
    }

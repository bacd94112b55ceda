"""Validation perplexity and sigma_z after every epoch, one line per run."""

from __future__ import annotations

from typing import Any

from selfnorm.report.charts.figure import Chart, Figure, Rows, layer, legend_filter, names, panel, quantity, tips, zoom
from selfnorm.report.charts.theme import DASHES, ZOOM, group, group_scale
from selfnorm.report.collect import Collected, Record, name_beside

FIELDS = {"perplexity": "validation perplexity", "sigma_z": "validation σ_z"}
TINY = 1e-3  # smaller spreads, of the first epochs, would leave a logarithmic axis no room for the rest


def training(records: list[Record], collected: Collected, text: str) -> Figure | None:
    """Every run on one text; nothing where no history is stored."""
    runs = {r.run: r for r in records if collected.histories.get(r.run)}
    if not runs:
        return None
    several = list(runs.values())
    rows = [row for r in several for row in _rows(r, several, collected)]
    panels = [_panel(rows, field, several) for field in FIELDS]
    caption = f"After each epoch, on the validation text, dropout off, state carried. {ZOOM}"
    described = f"Validation perplexity and σ_z over the epochs of {len(runs)} runs on {text}."
    return Figure(f"Training: {text}", caption, described, panels, shared=("color", "strokeDash"))


def _rows(record: Record, beside: list[Record], collected: Collected) -> list[dict[str, Any]]:
    name = name_beside(record, beside) + record.unusual_k
    same = {"run": record.run, "model": name, "group": group(record), "d": record.parts["d"]}
    lines = collected.histories[record.run]
    return [
        {**same, "epoch": line["epoch"], "perplexity": line["perplexity"], "sigma_z": line["sigma_z"]}
        for line in lines
        if line["perplexity"] < 1e6
    ]


def _panel(rows: Rows, field: str, records: list[Record]) -> Chart:
    sizes = sorted({r.parts["d"] for r in records}, key=int)
    colour = group_scale(records)
    colours = names("group", None, colour["domain"], colour["range"])
    x = {**quantity("epoch", "epoch"), "axis": {"tickMinStep": 1}}
    y = quantity(field, FIELDS[field], log=True)
    hovered = {"or": [{"param": f"near_{name}", "empty": False} for name in FIELDS]}
    chosen = {"and": [{"param": "only_group"}, {"param": "only_d"}]}
    pale = {"condition": [{"test": hovered, "value": 1}, {"test": chosen, "value": 0.45}], "value": 0.04}
    encoding = {
        "x": x, "y": y, "detail": names("run"), "color": colours, "opacity": pale,
        "strokeDash": names("d", "d", sizes, DASHES[: len(sizes)]),
        "size": {"condition": {"test": hovered, "value": 3.5}, "value": 1.5},
    }  # fmt: skip
    filters = [legend_filter("group"), legend_filter("d")] if field == "perplexity" else []
    near = {
        "name": f"near_{field}",
        "select": {"type": "point", "on": "pointerover", "nearest": True, "fields": ["run"]},
    }
    shown = {"condition": {"test": hovered, "value": 1}, "value": 0}
    tip = tips("model", "d", "epoch:Q", "perplexity:Q", "sigma_z:Q", "run")
    dots = layer(
        "point", {"x": x, "y": y, "color": colours, "opacity": shown, "tooltip": tip}, [near], size=30, filled=True
    )
    lines = layer("line", encoding, [*filters, zoom(field)])
    return panel([row for row in rows if row[field] > TINY], 400, 320, [lines, dots], FIELDS[field])

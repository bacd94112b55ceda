"""How log Z is spread: wide models, narrow ones and calibrated ones apart, because one axis cannot show them together."""

from __future__ import annotations

from collections.abc import Sequence

from selfnorm.registry.criteria import CRITERIA
from selfnorm.report.charts.figure import (
    Chart,
    Figure,
    Rows,
    layer,
    legend_filter,
    names,
    panel,
    quantity,
    rule_at,
    tips,
    when,
    zoom,
)
from selfnorm.report.charts.theme import COLOURS, DASHES, ZOOM
from selfnorm.report.collect import Record, name_beside

WIDE = 0.5  # sigma_z
MOST = len(COLOURS)


def log_z(records: Sequence[Record], where: str) -> Figure | None:
    """The best model of each criterion, at most as many as there are colours; nothing where no histogram is stored."""
    chosen = shown(records)
    if not chosen:
        return None
    raw = [r for r in chosen if r.calibration == "none"]
    parts = {
        f"wide: σ_z above {WIDE:g}": [r for r in raw if r.measured.sigma_z > WIDE],
        f"narrow: σ_z up to {WIDE:g}": [r for r in raw if r.measured.sigma_z <= WIDE],
        "after mlp": [r for r in chosen if r.calibration == "mlp"],
    }
    models = list(dict.fromkeys(name_beside(r, raw) + r.unusual_k for r in raw))
    filled = [(title, some) for title, some in parts.items() if some]
    panels = [_panel(some, raw, title, models, place) for place, (title, some) in enumerate(filled)]
    d = chosen[0].parts["d"]
    caption = (
        f"A self-normalized model is a spike at 0. d = {d}; the best model of each of {len(models)} criteria. Each panel has its own "
        f"axis. {ZOOM}"
    )
    spreads = ", ".join(f"{name_beside(r, raw)} {r.measured.sigma_z:.3g}" for r in raw)
    described = f"Histograms of log Z on {where}, d = {d}. σ_z as trained: {spreads}."
    return Figure(f"log Z: {where}", caption, described, panels, shared=("color", "strokeDash"))


def shown(group: Sequence[Record], most: int = MOST) -> list[Record]:
    """The best of each criterion, raw and after mlp, at the d with most criteria; the paper's first."""
    stored = [r for r in group if r.measured.histogram]
    if not stored:
        return []
    criteria = {
        d: len({r.parts["criterion"] for r in stored if r.parts["d"] == d}) for d in {r.parts["d"] for r in stored}
    }
    widest = max(criteria, key=lambda d: (criteria[d], int(d)))
    best: dict[str, Record] = {}
    for r in sorted(stored, key=lambda r: r.measured.perplexity):
        if r.parts["d"] == widest and r.calibration == "none":
            best.setdefault(r.parts["criterion"], r)
    names = sorted(best, key=lambda name: list(CRITERIA).index(name) if name in CRITERIA else len(CRITERIA))[:most]
    return [r for name in names for r in stored if r.run == best[name].run and r.calibration in ("none", "mlp")]


def _panel(records: Sequence[Record], raw: Sequence[Record], title: str, models: list[str], place: int) -> Chart:
    encoding = {
        "x": quantity("log_z", "log Z"),
        "y": quantity("share", "contexts, peak = 1"),
        "color": names("model", None, models, COLOURS[: len(models)]),
        "strokeDash": names("model", None, models, DASHES[: len(models)]),
        "opacity": when(["only_model"], 1, 0.08),
        "tooltip": tips("model", "calibration", "log_z:Q", "contexts:Q", "sigma_z:Q"),
    }
    filters = [legend_filter("model")] if place == 0 else []
    lines = layer("line", encoding, [*filters, zoom(str(place))], interpolate="step-after", strokeWidth=1.8)
    return panel([row for r in records for row in _steps(r, raw)], 400, 260, [rule_at(0, "x"), lines], title)


def _steps(record: Record, raw: Sequence[Record]) -> Rows:
    h = record.measured.histogram
    counts = [float(n) for n in h["counts"]]
    wide, top = (h["high"] - h["low"]) / len(counts), max(counts) or 1.0
    twin = next((r for r in raw if r.run == record.run), record)
    same = {
        "model": name_beside(twin, raw) + record.unusual_k,
        "calibration": record.calibration,
        "sigma_z": record.measured.sigma_z,
    }
    edges = [h["low"] + i * wide for i in range(len(counts) + 1)]
    return [
        {**same, "log_z": x, "share": n / top, "contexts": int(n)} for x, n in zip(edges, [*counts, 0.0], strict=True)
    ]

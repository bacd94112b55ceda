"""The pictures of the documentation, drawn from results/ and benchmarks/results/."""

from __future__ import annotations

import json
from pathlib import Path

from fixed_cost import fixed_cost
from why import entropy, sizes

from selfnorm.report.charts.estimators import draw
from selfnorm.report.charts.figure import Chart, Figure, Rows, layer, names, panel, quantity, tips
from selfnorm.report.charts.labels import pixels, place
from selfnorm.report.charts.log_z import log_z
from selfnorm.report.collect import Record, collect

MODELS = ("softmax", "devlin", "andreas", "nce", "nce_r")  # the paper's five
BEFORE, AFTER = "as trained", "after mlp"
NAMED = ("SM-LM", "NCE-LM", "DEV-LM α=1", "AND-LM α=1", "NCE-R-LM α=1")  # labelled first
WIDE, HIGH = 680, 340
WHERE: Chart = {
    "dx": {"expr": "datum.dx || 0"},
    "dy": {"expr": "datum.dy || 0"},
    "align": {"expr": "datum.align || 'left'"},
}


def pictures(root: Path) -> dict[str, Figure]:
    """Every picture by its file name."""
    records = [r for r in collect(root / "results").records if r.text == "ptb" and r.parts["split"] == "test"]
    hundred = [r for r in records if r.parts["d"] == "100"]
    few = [r for r in hundred if r.parts["criterion"] in MODELS]
    drawn = {"log-z": log_z(few, "PTB test")}
    found = {name: figure for name, figure in drawn.items() if figure is not None}
    why = {"why-entropy": entropy(root), "why-sizes": sizes(root)}
    return {"before-after": before_after(hundred), "heads": heads(root), "fixed-cost": fixed_cost(root), **why, **found}


def before_after(records: list[Record]) -> Figure:
    """sigma_z against perplexity of every model that was calibrated with mlp, joined by a line."""
    after = {r.run: r for r in records if r.calibration == "mlp"}
    raw = {r.run: r for r in records if r.calibration == "none" and r.run in after}
    rows: Rows = [
        {
            "run": run,
            "state": state,
            "model": r.name + r.unusual_k,
            "perplexity": r.measured.perplexity,
            "sigma_z": r.measured.sigma_z,
        }
        for run in sorted(raw)
        for state, r in ((BEFORE, raw[run]), (AFTER, after[run]))
    ]
    low, high = min(row["perplexity"] for row in rows) - 2, max(row["perplexity"] for row in rows) + 8
    least, most = min(row["sigma_z"] for row in rows) / 1.5, max(row["sigma_z"] for row in rows) * 1.5
    rows.sort(key=lambda row: (row["state"] == AFTER, row["model"] not in NAMED, row["perplexity"]))
    spots = [
        (pixels(row["perplexity"], low, high, WIDE), HIGH - pixels(row["sigma_z"], least, most, HIGH, log=True))
        for row in rows
    ]
    for row in rows:
        row["label"] = ""
    for row, label in zip(
        rows, place(spots, [row["model"] for row in rows if row["state"] == BEFORE], WIDE, HIGH), strict=False
    ):
        row.update(label=row["model"] if label.align else "", dx=label.dx, dy=label.dy, align=label.align or "left")
    x = quantity("perplexity", "perplexity (lower predicts better)", domain=[low, high])
    y = quantity("sigma_z", "σ_z (lower is safer to skip)", log=True, domain=[least, most])
    states = [BEFORE, AFTER]
    look = {
        "color": names("state", None, states, ["#D55E00", "#0072B2"]),
        "shape": names("state", None, states, ["circle", "diamond"]),
        "tooltip": tips("model", "state", "perplexity:Q", "sigma_z:Q"),
    }
    lines = layer("line", {"x": x, "y": y, "detail": names("run")}, color="#999999", opacity=0.4, strokeWidth=1)
    words = layer("text", {"x": x, "y": y, "text": names("label")}, (), fontSize=10, **WHERE)
    chart: Chart = panel(
        rows, WIDE, HIGH, [lines, layer("point", {"x": x, "y": y, **look}, size=80, strokeWidth=2), words]
    )
    spread = [
        (min(r.measured.sigma_z for r in some.values()), max(r.measured.sigma_z for r in some.values()))
        for some in (raw, after)
    ]
    alt = (
        f"σ_z against perplexity of {len(raw)} models on PTB test, d = 100. As trained, σ_z is {spread[0][0]:.2f} to {spread[0][1]:.2f}; "
        f"after the mlp calibration {spread[1][0]:.4f} to {spread[1][1]:.3f}, at the same perplexity."
    )
    return Figure("σ_z before and after calibration", "", alt, [chart], columns=1)


def heads(root: Path) -> Figure:
    """What is left of sigma_z on the head of a language model, by the cost of the estimate."""
    table = json.loads((root / "benchmarks" / "results" / "llm-head.json").read_text(encoding="utf-8"))
    rows: Rows = [
        {"run": row["text"], "model": row["text"], "group": row["text"].removesuffix("_test"), "share": float(row["cost"]),
         "calibration": row["kind"].partition(",")[0], "sigma_z": row["sigma_z"], "drawn": row["sigma_z"]}
        for row in table["rows"]
    ]  # fmt: skip
    texts = sorted({row["group"] for row in rows})
    colours = {"domain": texts, "range": ["#0072B2", "#D55E00", "#009E73", "#CC79A7"][: len(texts)]}
    size = f"{table['V']:,} words, on {len(texts)} texts"
    alt = f"σ_z left on the head of a language model with {size}, by the share of the exact log Z's multiply-adds."
    return Figure("Estimates of log Z for a language model's head", "", alt, [draw(rows, colours)], columns=1)

"""The pictures of why-calibration-works.md, drawn from benchmarks/results/law-*.json (benchmarks/law.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from selfnorm.report.charts.figure import Chart, Figure, Rows, layer, names, panel, quantity, tips
from selfnorm.report.charts.theme import COLOURS, SHAPES

MODELS = {  # file, its name in the pictures
    "law-ptb-nce-d30": "PTB, d = 30",
    "law-ptb-nce-d100": "PTB, d = 100",
    "law-ptb-nce-d300": "PTB, d = 300",
    "law-ptb-nce-d650": "PTB, d = 650",
    "law-smollm2": "SmolLM2, d = 576",
}
INK = "#555555"
KINDS = ["affine", "mlp", "screen", "int8"]
Law = dict[str, Any]


def laws(root: Path) -> dict[str, Law]:
    folder = root / "benchmarks" / "results"
    return {
        name: json.loads((folder / f"{file}.json").read_text(encoding="utf-8"))
        for file, name in MODELS.items()
        if (folder / f"{file}.json").exists()
    }


def lines(rows: Rows, x: Chart, y: Chart, look: Chart, title: str, width: int = 300, height: int = 240) -> Chart:
    place = {"x": x, "y": y, **look}
    ink = {} if "color" in look else {"color": INK}
    bare = {"x": x, "y": y, **({"color": look["color"]} if "color" in look else {"detail": names("kind")})}
    return panel(
        rows, width, height, [layer("line", bare, **ink, strokeWidth=1.5), layer("point", place, **ink, size=55)], title
    )


def of_models(found: dict[str, Law]) -> Chart:
    return {"color": names("model", None, list(found), COLOURS), "tooltip": tips("model", "x:Q", "y:Q")}


def entropy(root: Path) -> Figure:
    """How many words matter, and what each kind leaves, by how sure the model is."""
    found = laws(root)
    rows: Rows = [
        {"model": name, "x": group["entropy"], "y": group["words"]}
        for name, law in found.items()
        for group in law["by_entropy"]
    ]
    x = quantity("x", "entropy of the next word, nats")
    words = lines(
        rows,
        x,
        quantity("y", "words that hold 90 % of Z", log=True, nice=True),
        of_models(found),
        "How many words matter",
    )
    panels = [words]
    for name in list(found)[-2:]:
        law = found[name]
        kinds = {k: n for k in KINDS if (n := chosen(law, k))}
        left: Rows = [
            {"kind": kind, "size": size, "x": group["entropy"], "y": group["left"][size]}
            for group in law["by_entropy"]
            for kind, size in kinds.items()
        ]
        look = {"shape": names("kind", None, KINDS, [SHAPES[k] for k in KINDS]), "tooltip": tips("size", "x:Q", "y:Q")}
        panels.append(
            lines(left, x, quantity("y", "error of log Z, rms", log=True, nice=True), look, f"What is left: {name}")
        )
    alt = "Left: the words that hold 90 % of Z, from a few where the model is sure to thousands where it is not. "
    alt += "Others: the error of each estimate by entropy; affine and mlp are worst where the model is sure, screen and int8 are not."
    return Figure("Why estimates of log Z work", "", alt, panels, columns=3)


def chosen(law: Law, kind: str) -> str:
    """The middle size of a kind, as law.py names it; nothing where it was not measured."""
    middle = {
        "mlp": {"frequent": 256},
        "int8": {"top": 64},
        "screen": {"rank": law["d"] // 3, "top": min(2048, law["V"] // 24)},
    }
    for row in law["rows"]:
        if row["kind"] == kind and all(row.get(key) == value for key, value in middle.get(kind, {}).items()):
            return ", ".join([kind, *(f"{key} {row[key]}" for key in ("frequent", "rank", "top") if key in row)])
    return ""


def sizes(root: Path) -> Figure:
    """What is left against rows, rank and exact words, one line per model."""
    found = laws(root)
    y = quantity("y", "σ_z left", log=True, nice=True)
    rows: dict[str, Rows] = {"rows": [], "rank": [], "top": []}
    for name, law in found.items():
        d, top = law["d"], min(2048, law["V"] // 24)
        for row in law["rows"]:
            here = {"model": name, "y": row["sigma_z"]}
            if row["kind"] == "mlp":
                rows["rows"].append({**here, "x": row["frequent"]})
            if row["kind"] == "screen" and row["top"] == top:
                rows["rank"].append({**here, "x": row["rank"] / d})
            if row["kind"] == "screen" and row["rank"] == d // 3:
                rows["top"].append({**here, "x": row["top"]})
    look = of_models(found)
    panels = [
        lines(rows["rows"], quantity("x", "rows K", log=True), y, look, "mlp: rows"),
        lines(rows["rank"], quantity("x", "rank r / d", log=True), y, look, "screen: rank"),
        lines(rows["top"], quantity("x", "exact words N, at r = d/3", log=True), y, look, "screen: exact words"),
    ]
    alt = "σ_z left against the size of the estimate, one line per model: rows of mlp, rank and exact words of screen. All fall."
    return Figure("How what is left depends on size", "", alt, panels, columns=3)

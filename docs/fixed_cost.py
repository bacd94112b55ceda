"""What the best calibration leaves if it may cost a fixed share of the LSTM, by d.

From benchmarks/results/fixed-cost-*.json; NCE-LM at d = 300 from mlp-bound-nce-d300.json, a longer fit at 9.5 % of the LSTM.
"""

from __future__ import annotations

import json
from pathlib import Path

from selfnorm.report.charts.figure import Figure, Rows, layer, names, panel, quantity, tips
from selfnorm.report.charts.theme import COLOURS, SHAPES

MODELS = {"nce": "NCE-LM", "ncer": "NCE-R-LM, α = 10", "sm": "SM-LM", "dev": "DEV-LM, α = 1", "and": "AND-LM, α = 1"}
KINDS = ["none", "mlp", "screen"]


def fixed_cost(root: Path) -> Figure:
    """One panel a share: sigma_z before and after, test text, one line per model."""
    points = measured(root)
    panels = []
    x, y = quantity("d", "d", log=True, domain=[25, 800]), quantity("sigma_z", "σ_z, test", log=True, nice=True)
    colour = names("model", None, list(MODELS.values()), COLOURS)
    shape = names("kind", None, KINDS, [SHAPES[kind] for kind in KINDS])
    dash = {"condition": {"test": "datum.kind == 'none'", "value": [4, 3]}, "value": [1, 0]}
    for share in sorted({point["share"] for point in points}):
        rows: Rows = [point for point in points if point["share"] == share]
        line = {"x": x, "y": y, "color": colour, "detail": names("state"), "strokeDash": dash}
        point = {
            "x": x,
            "y": y,
            "color": colour,
            "shape": shape,
            "tooltip": tips("model", "kind", "size", "d:Q", "sigma_z:Q"),
        }
        title = f"{share:.0%} of the LSTM's multiply-adds"
        panels.append(
            panel(rows, 320, 260, [layer("line", line, strokeWidth=1.5), layer("point", point, size=60)], title)
        )
    alt = "σ_z before and after the best calibration within 5 and 10 % of the LSTM's multiply-adds, against d, for five kinds of models."
    return Figure("Calibration at a fixed cost", "", alt, panels, columns=2)


def measured(root: Path) -> Rows:
    """A row for each model, d and share: before, and after the kind that leaves the least on the validation text."""
    found: Rows = []
    for path in sorted((root / "benchmarks" / "results").glob("fixed-cost-ptb-*.json")):
        table = json.loads(path.read_text(encoding="utf-8"))
        model = MODELS[path.stem.removeprefix("fixed-cost-ptb-").rstrip("0123456789")]
        for share in {row["share"] for row in table["rows"]}:
            best = min((row for row in table["rows"] if row["share"] == share), key=lambda row: row["valid"]["sigma_z"])
            here = {"model": model, "d": table["d"], "share": share}
            before = {
                "kind": "none",
                "state": f"{model} before",
                "size": "",
                "sigma_z": table["sigma_z_before"]["test"],
            }
            size = ", ".join(f"{key} {value}" for key, value in best["size"].items())
            after = {"kind": best["kind"], "state": f"{model} after", "size": size, "sigma_z": best["test"]["sigma_z"]}
            found += [{**here, **before}, {**here, **after}]
    return found + longer_fit(root)


def longer_fit(root: Path) -> Rows:
    fit = json.loads((root / "benchmarks" / "results" / "mlp-bound-nce-d300.json").read_text(encoding="utf-8"))
    (raw,) = (root / "results" / "step").glob("ptb-nce-d300-*/test.json")
    before = json.loads(raw.read_text(encoding="utf-8"))["sigma_z"]
    here = {"model": "NCE-LM", "d": 300, "share": 0.1}
    size = f"{fit['calibrate']['frequent']} rows"
    return [
        {**here, "kind": "none", "state": "NCE-LM before", "size": "", "sigma_z": before},
        {**here, "kind": "mlp", "state": "NCE-LM after", "size": size, "sigma_z": fit["test"]["sigma_z"]},
    ]

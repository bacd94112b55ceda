"""The figures of an audit: histograms of log Z, entropy against log Z, and what estimates leave by entropy."""

from __future__ import annotations

import math
from typing import Any

from selfnorm.report.charts.figure import Chart, Figure, Rows, layer, names, panel, quantity, rule_at
from selfnorm.report.charts.theme import COLOURS

Found = dict[str, Any]


def figures(found: Found) -> list[Figure]:
    """Those for which the audit has numbers."""
    made = [histograms(found), entropies(found)]
    return [*made, left(found)] if any(row["estimate"] != "none" for row in found["estimates"]) else made


def histograms(found: Found) -> Figure:
    rows: Rows = []
    for text in found["texts"]:
        bins = text["histogram"]
        width = (bins["high"] - bins["low"]) / len(bins["counts"])
        for place, count in enumerate(bins["counts"]):
            share = count / (sum(bins["counts"]) * width)
            rows.append({"text": text["text"], "log_z": bins["low"] + (place + 0.5) * width, "density": share})
    encoding = {"x": quantity("log_z", "log Z"), "y": quantity("density", "density", zero=True), "color": _texts(found)}
    log_v = found["head"]["log_V"]
    layers = [layer("area", encoding, opacity=0.35, line=True, interpolate="monotone"), rule_at(log_v, "x")]
    parts = [f"{t['text']}: mean {t['mu_z']:+.2f}, spread {t['sigma_z']:.2f}" for t in found["texts"]]
    caption = (
        f"Over the contexts of each text. {'; '.join(parts)}. Dotted: log V = {log_v:.2f}, that of an untrained model."
    )
    chart = panel(rows, 620, 260, layers)
    chart["layer"][0]["encoding"]["y"]["stack"] = None
    return Figure("log Z", caption, f"Histograms of log Z. {caption}", [chart], columns=1)


def entropies(found: Found) -> Figure:
    panels = []
    for text in found["texts"]:
        points = zip(text["points"]["entropy"], text["points"]["log_z"], strict=True)
        rows: Rows = [{"text": text["text"], "entropy": e, "log_z": z} for e, z in points]
        encoding = {"x": quantity("entropy", "entropy (nats)"), "y": quantity("log_z", "log Z"), "color": _texts(found)}
        title = [text["text"], f"correlation {text['correlation']:+.2f}"]
        panels.append(panel(rows, 300, 260, [layer("point", encoding, size=6, opacity=0.4, filled=True)], title))
    caption = "Each dot is a context. Where the model is sure (left), log Z is the score of its first word."
    return Figure("Entropy against log Z", caption, caption, panels, columns=2, shared=("x", "y", "color"))


def left(found: Found) -> Figure:
    panels: list[Chart] = []
    order = list(dict.fromkeys(row["estimate"] for row in found["estimates"]))
    for name in (text["text"] for text in found["texts"]):
        rows: Rows = [
            {"estimate": row["estimate"], "entropy": min(band["from"] + 0.25, 6.0), "left": _size(band)}
            for row in found["estimates"]
            if row["text"] == name
            for band in row["by_entropy"]
        ]
        encoding = {
            "x": quantity("entropy", "entropy of the context (nats)"),
            "y": quantity("left", "root mean square of what is left", log=True),
            "color": names("estimate", "estimate", order, [COLOURS[i % len(COLOURS)] for i in range(len(order))]),
        }
        floor = rule_at(found["floor"][name]["bf16_logits"], "y")
        panels.append(panel(rows, 300, 280, [layer("line", encoding, point=True), floor], name))
    caption = "log Z less its estimate, by entropy of the context. Dotted: what logits in bfloat16 cost anyway."
    return Figure("What the estimates leave", caption, caption, panels, columns=2, shared=("y", "color"))


def _size(band: dict[str, float]) -> float:
    return max(1e-5, math.hypot(band["sigma_z"], band["mu_z"]))


def _texts(found: Found) -> Chart:
    every = [text["text"] for text in found["texts"]]
    return names("text", "text", every, [COLOURS[i % len(COLOURS)] for i in range(len(every))])

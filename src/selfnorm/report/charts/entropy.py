"""log Z against the entropy of the prediction (the paper's Figure 1), with the same axes in every panel."""

from __future__ import annotations

import math
from collections.abc import Sequence

from selfnorm.report.charts.figure import Chart, Figure, layer, panel, quantity, rule_at, tips
from selfnorm.report.collect import Record


def entropy(records: Sequence[Record], where: str) -> Figure | None:
    """NCE-LM at up to three sizes; nothing where no such histogram is stored."""
    chosen = figure_1(records)
    if not chosen:
        return None
    sides = {side: _union([r.measured.entropy_histogram[side] for r in chosen]) for side in ("entropy", "log_z")}
    panels = [_panel(r, sides) for r in chosen]
    pairs = ", ".join(f"{r.measured.correlation:+.2f} for {r.name} at d = {r.parts['d']}" for r in chosen)
    caption = (
        f"Entropy of the prediction against log Z, as in the paper's Figure 1; darker is denser. Correlation: {pairs}."
    )
    described = f"Density of contexts on {where} by entropy and log Z. Correlation: {pairs}."
    return Figure(f"Entropy and log Z: {where}", caption, described, panels, columns=3, shared=("color",))


def figure_1(group: Sequence[Record]) -> list[Record]:
    """NCE-LM at three sizes, as the paper has it; while there is one size only, NCE-LM, SM-LM and DEV-LM of that size."""
    raw = [r for r in group if r.calibration == "none" and r.measured.entropy_histogram]
    raw.sort(key=lambda r: (-len(r.extras) - bool(r.unusual_k), -r.measured.perplexity))  # the last is shown
    sizes = {int(r.parts["d"]): r for r in raw if r.parts["criterion"] == "nce"}
    if len(sizes) > 1:
        ds = sorted(sizes)
        return [sizes[d] for d in sorted({ds[0], ds[len(ds) // 2], ds[-1]})]
    widest = max((int(r.parts["d"]) for r in raw), default=0)
    same = {r.parts["criterion"]: r for r in raw if int(r.parts["d"]) == widest}
    return [same[name] for name in ("nce", "softmax", "devlin") if name in same]


def _union(ranges: list[list[float]]) -> list[float]:
    return [min(low for low, _ in ranges), max(high for _, high in ranges)]


def _panel(record: Record, sides: dict[str, list[float]]) -> Chart:
    h = record.measured.entropy_histogram
    counts = h["counts"]
    across = _edges(h["entropy"], len(counts))
    up = _edges(h["log_z"], len(counts[0]))
    rows = [
        {
            "e1": across[i],
            "e2": across[i + 1],
            "z1": up[j],
            "z2": up[j + 1],
            "contexts": int(n),
            "dense": math.log10(1 + n),
        }
        for i, row in enumerate(counts)
        for j, n in enumerate(row)
        if n
    ]
    r = record.measured.correlation
    title = [f"{record.name}{record.unusual_k}, d = {record.parts['d']}", f"correlation {r:+.2f}"]
    dense = {**quantity("dense", "log10(1 + contexts)"), "scale": {"scheme": "cividis", "reverse": True}}
    encoding = {
        "x": quantity("e1", "entropy H (nats)", domain=sides["entropy"]), "x2": {"field": "e2"},
        "y": quantity("z1", "log Z", domain=sides["log_z"]), "y2": {"field": "z2"}, "color": dense,
        "tooltip": tips("e1:Q", "z1:Q", "contexts:Q", e1="entropy from", z1="log Z from"),
    }  # fmt: skip
    return panel(rows, 300, 260, [layer("rect", encoding), rule_at(0, "y")], title)


def _edges(ends: list[float], count: int) -> list[float]:
    low, high = ends
    return [low + (high - low) * i / count for i in range(count + 1)]

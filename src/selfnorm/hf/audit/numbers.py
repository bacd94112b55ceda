"""What a text says about log Z: means and spreads, by position in the window, by entropy and by kind of token."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from selfnorm.evaluation.statistics import block_sums, intervals, numbers
from selfnorm.hf.audit.collect import Array, Walked

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
POSITIONS = (0, 1, 4, 16, 64, 256, 1024, 4096, 1 << 30)
ENTROPIES = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 1e9)
POINTS = 1500  # contexts shown in a plot


def of_text(walked: Walked, tokenizer: Any) -> dict[str, Any]:
    """Everything the audit says of one text."""
    log_z, nll, h = walked.log_z, -walked.log_p, walked.entropy
    sums = block_sums(log_z, nll, h)
    return {
        "text": walked.text.name,
        "tokens": len(walked.text.ids),
        "windows": walked.text.windows,
        "window": walked.text.size,
        "start_token": list(walked.text.start),
        "contexts": len(log_z),
        **numbers(sums),
        "intervals": intervals(sums),
        "entropy": float(h.mean()),
        "smallest": float(log_z.min()),
        "largest": float(log_z.max()),
        "quantiles": {str(q): float(value) for q, value in zip(QUANTILES, np.quantile(log_z, QUANTILES), strict=True)},
        "by_position": _bands(walked.columns["position"], POSITIONS, walked, "{:.0f}"),
        "by_entropy": _bands(h, ENTROPIES, walked, "{:g}"),
        "by_token": by_token(walked, tokenizer),
        "histogram": histogram(log_z),
        "points": points(walked),
    }


def _bands(values: Array, edges: tuple[float, ...], walked: Walked, form: str) -> list[dict[str, Any]]:
    rows = []
    for low, high in pairwise(edges):
        inside = (values >= low) & (values < high)
        if inside.any():
            until = "and more" if high > 1e8 else f"to {form.format(high)}"
            rows.append({"from": low, "band": f"{form.format(low)} {until}", **_row(walked, inside)})
    return rows


def _row(walked: Walked, inside: np.ndarray) -> dict[str, float]:
    z = walked.log_z[inside]
    return {
        "contexts": len(z),
        "mu_z": float(z.mean()),
        "sigma_z": float(z.std()),
        "nll": float(-walked.log_p[inside].mean()),
        "entropy": float(walked.entropy[inside].mean()),
    }


def by_token(walked: Walked, tokenizer: Any) -> list[dict[str, Any]]:
    """log Z before each kind of next token."""
    ids, which = np.unique(walked.columns["token"].astype(np.int64), return_inverse=True)
    special = set(tokenizer.all_special_ids)
    kinds = np.array([kind_of(tokenizer.decode([int(i)]), int(i) in special) for i in ids])[which]
    found = [{"band": kind, **_row(walked, kinds == kind)} for kind in np.unique(kinds)]
    return sorted(found, key=lambda one: -one["contexts"])


def kind_of(text: str, special: bool) -> str:
    """Words that begin with a space, parts of words, numbers, punctuation, space."""
    inside = text.strip()
    if special:
        return "special"
    if not inside:
        return "space and line ends"
    if any(letter.isalpha() for letter in inside):
        return "start of a word" if text[:1].isspace() else "inside a word or after no space"
    return "number" if any(letter.isdigit() for letter in inside) else "punctuation"


def histogram(log_z: Array, bins: int = 60) -> dict[str, Any]:
    counts, edges = np.histogram(log_z, bins=bins)
    return {"counts": counts.tolist(), "low": float(edges[0]), "high": float(edges[-1])}


def points(walked: Walked) -> dict[str, list[float]]:
    """Entropy and log Z of some contexts, evenly spread over the text."""
    chosen = np.linspace(0, len(walked.log_z) - 1, min(POINTS, len(walked.log_z))).astype(np.int64)
    return {
        "entropy": [round(float(x), 3) for x in walked.entropy[chosen]],
        "log_z": [round(float(x), 3) for x in walked.log_z[chosen]],
    }

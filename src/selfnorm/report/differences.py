"""Is a difference real? Two models on the same words, whole blocks of text resampled for both at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from selfnorm.evaluation.statistics import differences
from selfnorm.registry.criteria import label
from selfnorm.report.collect import Record, in_common
from selfnorm.report.menu import SAME
from selfnorm.report.tables import Table

HEAD = ["model", "k", "perplexity", "95 %", "real", "sigma_z", "95 %", "real"]
NOTES = [
    "Paired block bootstrap over the text: real where the interval leaves out 0. It answers for these trained models on more text of "
    "this kind, not for what another seed would have trained."
]


def difference_tables(records: Sequence[Record]) -> list[Table]:
    """One table per text, split, size, length and seed: every raw model against plain NCE-LM, or the best if there is none."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for r in records:
        if r.measured.blocks and r.calibration == "none":
            key = (*(r.parts.get(name, "") for name in SAME), str(r.measured.words))
            groups.setdefault(key, []).append(r)
    return [_table(group) for _, group in sorted(groups.items()) if len(group) > 1]


def _table(group: Sequence[Record]) -> Table:
    ordered = sorted(group, key=lambda r: r.measured.perplexity)
    plain = [r for r in ordered if r.name == label("nce")]
    reference = min(plain, key=lambda r: abs(int(r.parts.get("k", 100)) - 100)) if plain else ordered[0]
    parts = reference.parts
    about = [parts["data"], *in_common(ordered), parts["split"], f"d = {parts['d']}", f"seed {parts.get('seed', '–')}"]
    rows = [_row(r, reference) for r in ordered if r is not reference]
    return Table(f"Differences from {reference.name}: {', '.join(about)}", HEAD, rows, NOTES)


def _row(record: Record, reference: Record) -> list[str]:
    found = differences(np.asarray(record.measured.blocks), np.asarray(reference.measured.blocks))
    gap, low, high = (100 * x for x in found["perplexity"])
    perplexity = [f"{gap:+.1f} %", f"{low:+.1f} to {high:+.1f}", _real(low, high)]
    gap, low, high = found["sigma_z"]
    return [
        record.name,
        record.k,
        *perplexity,
        f"{gap:+.3f}",
        f"{low:+.3f} to {high:+.3f}",
        _real(low, high),
    ]


def _real(low: float, high: float) -> str:
    return "no" if low <= 0 <= high else "yes"

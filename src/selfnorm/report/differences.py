"""Is a difference real? Two models on the same words, whole blocks of text resampled for both at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from selfnorm.evaluation.statistics import differences
from selfnorm.registry.criteria import label
from selfnorm.report.collect import Record, in_common
from selfnorm.report.menu import SAME
from selfnorm.report.number import number, percent
from selfnorm.report.table import Table

GAPS = ["perplexity diff", "perplexity 95 %", "perplexity real", "sigma_z diff", "sigma_z 95 %", "sigma_z real"]
HEAD = ["model", "k", *GAPS]
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
    return [record.name, record.k, *gaps(record, reference)]


def gaps(record: Record, reference: Record) -> list[str]:
    """The cells of GAPS: what a model has beyond another on the same text, with intervals."""
    found = differences(np.asarray(record.measured.blocks), np.asarray(reference.measured.blocks))
    gap, low, high = found["perplexity"]
    perplexity = [percent(gap), f"{100 * low:+.1f} to {100 * high:+.1f}", _real(low, high)]
    gap, low, high = found["sigma_z"]
    ends = f"{number(low, 3, sign=True)} to {number(high, 3, sign=True)}"
    return [*perplexity, number(gap, 3, sign=True), ends, _real(low, high)]


def _real(low: float, high: float) -> str:
    return "no" if low <= 0 <= high else "yes"

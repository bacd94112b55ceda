"""The menu: every criterion on the same text, for choosing one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from selfnorm.report.collect import Collected, Record, in_common
from selfnorm.report.tables import Table

FEWEST = 4  # criteria that make a menu
SAME = ("data", "max_words", "split", "d", "encoder", "squash", "epochs", "seed", "others")
HEAD = ["model", "k", "pins log Z", "perplexity", "mu_z", "sigma_z", "sigma_z after mlp", "s per epoch", "MB"]

NOTES = {
    "s per epoch": "Seconds: the median epoch by the clock, validation included.",
    "MB": "MB: the most the process held in its first epoch.",
}


def menus(collected: Collected) -> list[Table]:
    """One table per text, d and epochs with enough criteria, raw models, best perplexity first."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in collected.records:
        if record.calibration == "none" and record.parts["split"] == "test":
            groups.setdefault(tuple(record.parts.get(key, "") for key in SAME), []).append(record)
    return [
        _menu(group, collected)
        for _, group in sorted(groups.items())
        if len({r.parts["criterion"] for r in group}) >= FEWEST
    ]


def _menu(group: Sequence[Record], collected: Collected) -> Table:
    first = group[0].parts
    about = ", ".join(
        [first["data"], *in_common(group), first["split"], f"d = {first['d']}", f"{first.get('epochs', '–')} epochs"]
    )
    ordered = sorted(group, key=lambda r: r.measured.perplexity)
    rows = [_row(r, collected) for r in ordered]
    told = [place for place in range(len(HEAD)) if any(row[place] for row in rows)]
    head = [HEAD[i] for i in told]
    notes = [" ".join(NOTES[name] for name in head if name in NOTES)] if set(head) & set(NOTES) else []
    return Table(f"Menu: {about}", head, [[row[i] for i in told] for row in rows], notes)


def _row(record: Record, collected: Collected) -> list[str]:
    m, lines = record.measured, collected.histories.get(record.run, [])
    after = [r for r in collected.records if (r.run, r.calibration) == (record.run, "mlp") and _test(r)]
    return [
        record.name,
        record.k,
        record.pins,
        f"{m.perplexity:.1f}",
        f"{m.mu_z:+.3f}",
        f"{m.sigma_z:.3f}",
        f"{after[0].measured.sigma_z:.4f}" if after else "",
        _per_epoch(lines),
        str(lines[0].get("megabytes", "")) if lines else "",
    ]


def _test(record: Record) -> bool:
    return record.parts["split"] == "test"


def _per_epoch(lines: Sequence[dict[str, Any]]) -> str:
    """The median, which epochs that were halted or had the machine to themselves do not move."""
    points = [(0.0, 0.0), *((line["epoch"], line["seconds"]) for line in lines)]
    each = [(t - s) / (e - d) for (d, s), (e, t) in pairwise(points) if e > d]
    return f"{median(each):.0f}" if each else ""

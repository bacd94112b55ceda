"""Records to tables: every measurement of a text, and the contexts where log Z deviates most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from selfnorm.registry.calibrations import kinds
from selfnorm.registry.criteria import label
from selfnorm.report.collect import Record, in_common, name_beside
from selfnorm.report.number import digits_of, interval, number
from selfnorm.report.table import Table

HEAD = [
    "model", "d", "k", "epochs", "calibration", "mu_z", "sigma_z", "sigma_z 95 %", "perplexity", "perplexity 95 %",
    "u_perplexity", "corr(H, log Z)", "seed",
]  # fmt: skip


def by_text(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """Records that can be compared, by text and split."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.text, record.parts["split"]), []).append(record)
    return dict(sorted(groups.items()))


def overview(records: Sequence[Record]) -> list[Table]:
    """One table per text and split: every run and calibration, small models first."""
    return [_overview(text, split, group) for (text, split), group in by_text(records).items()]


def _overview(text: str, split: str, group: list[Record]) -> Table:
    rows = []
    for r in sorted(group, key=_order):
        m = r.measured
        rows.append([
            name_beside(r, group), r.parts["d"], r.k, r.parts.get("epochs", "–"), r.calibration, number(m.mu_z, 3, sign=True),
            number(m.sigma_z, 4), interval(m.intervals.get("sigma_z"), digits_of(m.sigma_z)), number(m.perplexity, 2),
            interval(m.intervals.get("perplexity"), 1), number(m.u_perplexity, 2), number(m.correlation, 2, sign=True), str(m.seed),
        ])  # fmt: skip
    more = [extra for extra in in_common(group) if extra not in text]
    return Table(", ".join([f"Every measurement: {text}", split, *more]), HEAD, rows)


def _order(r: Record) -> tuple[Any, ...]:
    """By size and name; a model's calibrations from none to mlp."""
    kind = kinds().index(r.calibration) if r.calibration in kinds() else len(kinds())
    return int(r.parts["d"]), r.full_name, r.k, kind, r.measured.seed


def examples(records: Sequence[Record]) -> list[Table]:
    """The paper's kind of examples: contexts where log Z of a raw model deviates most, with the word that followed.

    One table for each text, model and size: of the validation text, where that was measured, with the usual settings, and of one seed.
    """
    tables, shown = [], set[tuple[str, ...]]()
    for r in sorted(records, key=lambda r: (r.parts["split"] != "valid", len(r.extras), r.measured.seed)):
        key = (r.parts["data"], r.parts.get("max_words", ""), r.name, r.k, r.parts["d"])
        wanted = (
            r.measured.notes.get("examples") and r.calibration == "none" and r.name in (label("nce"), label("softmax"))
        )
        if wanted and key not in shown:
            shown.add(key)
            rows = [
                [f"{e['context']} [{e['next']}]", number(e["log_z"], 2, sign=True), number(e["entropy"], 2)]
                for e in r.measured.notes["examples"]
            ]
            others = [o for o in records if (o.parts["data"], o.parts["split"]) == (r.parts["data"], r.parts["split"])]
            where = f"d = {r.parts['d']}, {r.parts['data']} {r.parts['split']}"
            title = f"Where log Z deviates most: {name_beside(r, others)}{r.unusual_k}, {where}"
            tables.append(Table(title, ["context [next word]", "log Z", "entropy"], rows))
    return tables

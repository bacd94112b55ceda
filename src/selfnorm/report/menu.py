"""The menu: every criterion on the same text, to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from selfnorm.registry.steps import COST
from selfnorm.report.collect import Collected, Record, in_common
from selfnorm.report.number import number
from selfnorm.report.table import Table, without_empty_columns

WEAK = 0.5  # a mean or spread of log Z that a criterion which pins it should not leave
FEWEST = 4  # criteria that make a menu
SAME = ("data", "max_words", "split", "d", "encoder", "squash", "epochs", "seed", "others")
HEAD = ["model", "k", "pins log Z", "perplexity", "mu_z", "sigma_z", "sigma_z after mlp", "s per epoch", "MB"]

BY_STEP = "Seconds: a training step times the steps of an epoch. MB: what a step holds besides the model. Both by the step `cost`."
BY_CLOCK = (
    "Seconds: the median epoch by the clock, validation included. MB: the most the process held in its first epoch."
)


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
    costs = [_cost(collected.of_run(COST, r.run)) for r in ordered]
    whole = 2 * sum(map(bool, costs)) > len(costs)  # a column is of one kind: blank where that was not measured
    lines = [collected.histories.get(r.run, []) for r in ordered]
    clock = [(_per_epoch(some), str(some[0].get("megabytes", "")) if some else "") for some in lines]
    rows = [
        [*_row(r, collected), *cost]
        for r, cost in zip(ordered, [cost or ("", "") for cost in costs] if whole else clock, strict=True)
    ]
    head, rows = without_empty_columns(HEAD, rows)
    notes = [BY_STEP if whole else BY_CLOCK] if {"s per epoch", "MB"} & set(head) else []
    return Table(f"Menu: {about}", head, rows, notes)


def _row(record: Record, collected: Collected) -> list[str]:
    m = record.measured
    after = [r for r in collected.records if (r.run, r.calibration) == (record.run, "mlp") and _test(r)]
    return [
        record.name,
        record.k,
        _pins(record),
        number(m.perplexity, 1),
        number(m.mu_z, 3, sign=True),
        number(m.sigma_z, 3),
        number(after[0].measured.sigma_z, 4) if after else "",
    ]


def _pins(record: Record) -> str:
    """Whether log Z was pinned, as measured: a penalty may be too weak for the training it had."""
    m = record.measured
    weak = record.pins == "yes" and max(abs(m.mu_z), m.sigma_z) > WEAK
    return "weakly" if weak else record.pins


def _cost(table: dict[str, Any]) -> tuple[str, ...]:
    """Seconds per epoch and megabytes as the step `cost` found them; () where it was not taken."""
    if not {"step_seconds", "steps_per_epoch", "megabytes"} <= set(table):
        return ()
    memory = table["megabytes"]
    return f"{table['step_seconds'] * table['steps_per_epoch']:.0f}", "" if memory is None else f"{memory:.0f}"


def _test(record: Record) -> bool:
    return record.parts["split"] == "test"


def _per_epoch(lines: Sequence[dict[str, Any]]) -> str:
    """The median, which epochs that were halted or had the machine to themselves do not move."""
    points = [(0.0, 0.0), *((line["epoch"], line["seconds"]) for line in lines)]
    each = [(t - s) / (e - d) for (d, s), (e, t) in pairwise(points) if e > d]
    return f"{median(each):.0f}" if each else ""

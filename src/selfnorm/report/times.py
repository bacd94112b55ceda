"""The paper's run-time paragraph as a table: seconds to score the validation set with and without log Z."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfnorm.config.signature import parse_signature
from selfnorm.registry.criteria import label
from selfnorm.report.paper import EXPECTED, expected
from selfnorm.report.table import Table

FIELDS = ("data", "V", "words", "d", "threads", "signature", "normalized_seconds", "unnormalized_seconds")
COST_FIELDS = ("run", "data", "V", "d", "signature", "step_seconds", "steps_per_epoch", "megabytes")
COST_HEAD = ["run", "data", "V", "d", "ms a step", "steps an epoch", "MB besides the model"]
HEAD = ["data", "V", "words", "whose", "d", "seconds with log Z", "without", "ratio"]


def times_table(results: Sequence[dict[str, Any]], path: Path = EXPECTED) -> Table:
    """The paper's two rows, each followed by ours on the same text; then our other texts."""
    results = [r for r in results if set(FIELDS) <= set(r) and "criterion" in parse_signature(str(r["signature"]))]
    table = expected(path)["times"]
    rows = []
    for cell in table["cell"]:
        ours = [r for r in results if r["data"] == cell["data"]]
        rows += [_row(cell, f"paper, {table['machine']}", "–"), *(_ours(r) for r in _ordered(ours))]
        if not ours:
            rows.append([cell["data"], "", "", "ours: not run (selfnorm study run paper/table1)", "", "", "", ""])
    named = {cell["data"] for cell in table["cell"]}
    rows += [_ours(r) for r in _ordered([r for r in results if r["data"] not in named])]
    return Table(table["title"], HEAD, rows, list(table["notes"]))


def cost_table(results: Sequence[dict[str, Any]]) -> list[Table]:
    """What a training step costs, as the step `cost` found it."""
    known = [r for r in results if set(COST_FIELDS) <= set(r) and "criterion" in parse_signature(str(r["signature"]))]
    rows = [
        [r["run"], r["data"], f"{r['V']:,}", str(r["d"]), f"{1000 * r['step_seconds']:.1f}", f"{r['steps_per_epoch']:,}",
         "" if r["megabytes"] is None else f"{r['megabytes']:.0f}"] for r in known
    ]  # fmt: skip
    return [Table("Cost of a training step", COST_HEAD, rows)] if rows else []


def _ordered(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(results, key=lambda r: (r["data"], int(r["d"]), str(r["signature"])))


def _ours(result: dict[str, Any]) -> list[str]:
    threads = f"{result['threads']} thread" + ("s" if result["threads"] > 1 else "")
    return _row(
        result, f"ours, {label(parse_signature(result['signature'])['criterion'])}, {threads}", str(result["d"])
    )


def _row(facts: dict[str, Any], whose: str, d: str) -> list[str]:
    slow, fast = float(facts["normalized_seconds"]), float(facts["unnormalized_seconds"])
    return [
        str(facts["data"]), f"{facts['V']:,}", f"{facts['words']:,}", whose, d, f"{slow:.1f}", f"{fast:.1f}", f"{slow / fast:.2f}"
    ]  # fmt: skip

"""The paper's last table: sentence completion, theirs and ours, with what each row was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfnorm.config.signature import parse_signature
from selfnorm.registry.criteria import label
from selfnorm.report.number import number
from selfnorm.report.paper import EXPECTED, beside, columns, expected, usual_parts
from selfnorm.report.table import Table

NUMBERS = ("acc_n", "delta_acc", "perplexity", "sigma_z")
SCHEDULE = "decay=2.0,decay_after=1"  # Table 6 halves the rate after every iteration; older signatures do not say
TASK_HEAD = ["model", "paper trained on", "ours trained on", "calibration"]


def of_the_challenge(result: dict[str, Any], path: Path = EXPECTED) -> bool:
    """Is this the paper's task, and not somebody's own questions, or a file of an older version?"""
    parts = parse_signature(str(result.get("signature", "")))
    whole = result.get("questions") == _expected(path)["questions"] and "words_read" in result
    return whole and parts.get("data") == "mscc"


def _expected(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = expected(path)["completion"][0]
    return table


def completion_table(results: Sequence[dict[str, Any]], path: Path = EXPECTED) -> Table:
    """Every run of ours next to the paper's cell, or the nearest cell of its method; then the cells not run."""
    table = _expected(path)
    cells = [{**table["all"], **cell} for cell in table["cell"]]
    same = [[r for r in results if _same(cell, r)] for cell in cells]
    rows = [_row(cell, r) for cell, ours in zip(cells, same, strict=True) for r in ours]
    others = [r for r in results if not any(_same(cell, r) for cell in cells)]
    rows += [_row(_nearest(cells, r), r) for r in sorted(others, key=lambda r: (-int(r["words_read"]), str(r["row"])))]
    rows += [_missing(cell) for cell, ours in zip(cells, same, strict=True) if not ours]
    head = [*TASK_HEAD, *columns(NUMBERS), "p (McNemar)", "n-gram (p)"]
    return Table(f"Table {table['number']}: {table['title']}", head, rows, list(table["notes"]))


def _same(cell: dict[str, Any], result: dict[str, Any]) -> bool:
    """The paper's own setting: method, d, iterations, all the text, no calibration."""
    parts = parse_signature(result["signature"])
    wanted = {"criterion": cell["criterion"], "d": str(cell["d"]), "epochs": str(cell["epochs"]), "calibration": "none"}
    alike = all(parts.get(key) == value for key, value in wanted.items())
    alike = alike and all(parts.get(key, value) == value for key, value in usual_parts(cell).items())
    schedule = parts.get("others", SCHEDULE) == SCHEDULE
    return alike and schedule and parts["alpha"] == f"{cell.get('alpha', 0):g}" and "max_words" not in parts


def _nearest(cells: Sequence[dict[str, Any]], result: dict[str, Any]) -> dict[str, Any]:
    parts = parse_signature(result["signature"])
    same = [c for c in cells if c["criterion"] == parts["criterion"] and f"{c.get('alpha', 0):g}" == parts["alpha"]]
    return same[0] if same else {"criterion": parts["criterion"]}


def _missing(cell: dict[str, Any]) -> list[str]:
    numbers = [text for name in NUMBERS for text in beside(cell[name], None, name)]
    command = "not run (selfnorm study run paper/table6)"
    return [label(cell["criterion"]), _size(cell), command, "none", *numbers, "", ""]


def _row(cell: dict[str, Any], result: dict[str, Any]) -> list[str]:
    numbers = [text for name in NUMBERS for text in beside(cell.get(name), float(result[name]), name)]
    ours = f"d = {result['row']['d']}, {result['words_read'] / 1e6:.1f} M words"
    calibration = parse_signature(result["signature"])["calibration"]
    other = result.get("ngram")
    ngram = f"{other['accuracy']:.1f} ({number(other['mcnemar_p'], 3)})" if other else ""
    return [label(cell["criterion"]), _size(cell), ours, calibration, *numbers, number(result["mcnemar_p"], 3), ngram]


def _size(cell: dict[str, Any]) -> str:
    return f"d = {cell['d']}, {cell['epochs']} × {cell['words'] / 1e6:.0f} M words" if "d" in cell else "–"

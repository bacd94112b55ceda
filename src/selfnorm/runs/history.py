"""What training wrote: a line per validation, and the fingerprint of the text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfnorm._util.change import checked_if_listed
from selfnorm._util.files import parse_json, read_json, read_text
from selfnorm._util.schema import check
from selfnorm.config.schemas import ENVIRONMENT, HISTORY_LINE


def read_history(path: Path) -> list[dict[str, Any]]:
    """The lines training wrote, one per validation; none if there is no such file yet."""
    if not path.exists():
        return []
    lines = []
    for number, line in enumerate(read_text(checked_if_listed(path)).split("\n"), 1):
        if line:
            lines.append(parse_json(line, f"{path} line {number}"))
            check(lines[-1], HISTORY_LINE, f"{path} line {number}", "Fix it, or remove the run to train it again.")
    return lines


def best_line(history: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The line of the weights that are kept: the lowest validation perplexity. The one place where that is decided."""
    return min(history, key=lambda line: float(line["perplexity"]), default=None)


def trained_epochs(folder: Path) -> float:
    """How many epochs the run's history has; a part of one counts as a part."""
    history = read_history(folder / "history.jsonl")
    return float(history[-1]["epoch"]) if history else 0.0


def text_of(folder: Path) -> str:
    """The fingerprint of the text a run was trained on; nothing if it does not say."""
    path = checked_if_listed(folder / "env.json")
    if not path.exists():
        return ""
    table = read_json(path)
    check(table, ENVIRONMENT, path, "Copy it again, or remove it: the text is then not compared.")
    return str(table.get("text", ""))

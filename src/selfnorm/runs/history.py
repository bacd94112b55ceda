"""What training wrote: a line per validation, and the fingerprint of the text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfnorm._util.change import checked_if_listed
from selfnorm._util.errors import UserError
from selfnorm._util.files import is_number, read_json, read_text

IN_HISTORY = ("epoch", "perplexity", "sigma_z", "seconds")  # of each line, among others


def read_history(path: Path) -> list[dict[str, Any]]:
    """The lines training wrote, one per validation; none if there is no such file yet."""
    try:
        lines = (
            [json.loads(line) for line in read_text(checked_if_listed(path)).split("\n") if line]
            if path.exists()
            else []
        )
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path} has a line that is not JSON ({error.msg}). Fix it, or remove the run to train it again."
        ) from None
    for number, line in enumerate(lines, 1):
        if not isinstance(line, dict) or not all(is_number(line.get(key)) for key in IN_HISTORY):
            raise UserError(
                f"{path} line {number} is not one that training wrote: numbers {', '.join(IN_HISTORY)} were expected. "
                "Fix it, or remove the run to train it again."
            )
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
    table = read_json(path) if path.exists() else {}
    return str(table.get("text", "")) if isinstance(table, dict) else ""

"""Find measurements and histories under a folder. JSON in, plain records out; no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selfnorm.errors import UserError
from selfnorm.names import NAMES, label
from selfnorm.results import Measurement, parse_signature, read_history, read_measurement


@dataclass(frozen=True)
class Record:
    """One measurement with the parts of its signature, and the folder it came from."""

    run: str
    measured: Measurement
    parts: dict[str, str]

    @property
    def name(self) -> str:
        """SM-LM, or DEV-LM α=0.1 where a penalty has a weight; how D' is drawn where that is not the usual way."""
        alpha, name = self.parts.get("alpha", "0"), self.parts["criterion"]
        usual = NAMES[name].subset if name in NAMES else ""
        drawn = self.parts.get("subset", usual)
        unusual = f", D' in {drawn}" if drawn != usual and self.parts.get("gamma", "1") != "1" else ""
        return label(name) + (f" α={alpha}" if float(alpha) > 0 else "") + unusual

    @property
    def k(self) -> str:
        """The number of noise words, where the criterion draws any."""
        drawn = self.parts["criterion"] in NAMES and NAMES[self.parts["criterion"]].draws
        return self.parts.get("k", "–") if drawn else "–"

    @property
    def calibration(self) -> str:
        return self.parts.get("calibration", "none")


@dataclass(frozen=True)
class Collected:
    records: list[Record]
    histories: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    others: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # completion, rescoring, … by kind


def collect(folder: Path) -> Collected:
    """Every measurement below `folder`, in a stable order."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder. Name one that holds runs, or results made by selfnorm measure.")
    records, histories, others = [], {}, dict[str, list[dict[str, Any]]]()
    for path in sorted(folder.rglob("*.json")):
        table = _table(path)
        if "kind_of_result" in table and isinstance(table.get("row"), dict):
            others.setdefault(str(table["kind_of_result"]), []).append(table)
        elif "signature" in table and "mu_z" in table:
            measured = read_measurement(path)
            records.append(Record(_run(path, folder), measured, parse_signature(measured.signature)))
    for path in sorted(folder.rglob("history.jsonl")):
        histories[_run(path, folder)] = read_history(path)
    if not records and not others:
        raise UserError(f"No measurement was found below {folder}. Make one with: selfnorm measure RUN")
    return Collected(records, histories, others)


def _run(path: Path, folder: Path) -> str:
    """A run by its place below the folder: two runs of one name in two places are two runs."""
    below = path.parent.relative_to(folder).as_posix()
    return path.parent.name if below == "." else below


def _table(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise UserError(f"{path} is not JSON. Remove it or make it again.") from None
    return table if isinstance(table, dict) else {}

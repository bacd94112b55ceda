"""The paper's cells next to ours: paper, ours and the difference in columns of their own; what was not run comes last."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from selfnorm.config.naming import slug
from selfnorm.registry.criteria import CRITERIA, label
from selfnorm.report.collect import Record
from selfnorm.report.number import number, percent
from selfnorm.report.table import Table

EXPECTED = Path(__file__).parent.parent / "studies" / "catalog" / "paper" / "expected.toml"
SHOWN = {"mu_z": 3, "sigma_z": 3, "perplexity": 1, "u_perplexity": 1, "correlation": 2, "acc_n": 1, "delta_acc": 1}
SHARED = {"window": "", "step": "noise words drawn per step"}  # two readings of the paper, which does not say
PRECISION = {  # what `others` of a signature may hold
    "": "",
    "precision=bf16": "trained with bf16 products",
    "precision=int16": "trained with int16 products",
}
WHICH = ["data", "model", "d", "alpha"]
MISSING_HEAD = ["table", *WHICH, "perplexity paper", "to run it"]


@cache
def expected(path: Path = EXPECTED) -> dict[str, Any]:
    """The paper's numbers."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def cells(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**table.get("all", {}), **cell} for cell in table["cell"]]


def paper_tables(records: Sequence[Record], path: Path = EXPECTED) -> list[Table]:
    """The cells of each table that were run, once for each way that noise words were drawn."""
    tables = [_paper_table(table, records) for table in expected(path)["table"]]
    return [table for table in tables if table.rows]


def _paper_table(table: dict[str, Any], records: Sequence[Record]) -> Table:
    numbers = list(table["numbers"])
    rows = [
        [*_which(cell), note, *(text for name in numbers for text in compare(cell.get(name), ours, name))]
        for cell in cells(table)
        for note, ours in found(cell, records)
    ]
    head = [*WHICH, "note", *columns(numbers)]
    if not any(row[len(WHICH)] for row in rows):
        head, rows = [*WHICH, *columns(numbers)], [[*row[: len(WHICH)], *row[len(WHICH) + 1 :]] for row in rows]
    return Table(f"Table {table['number']}: {table['title']}", head, rows, list(table.get("notes", [])))


def columns(numbers: Sequence[str]) -> list[str]:
    """The heads of a number's three columns."""
    return [f"{name} {which}" for name in numbers for which in ("paper", "ours", "diff")]


def missing_table(records: Sequence[Record], path: Path = EXPECTED) -> Table:
    """The cells that were not run, each with its command."""
    rows = [
        [str(table["number"]), *_which(cell), number(cell["perplexity"], 1) if "perplexity" in cell else "–",
         _command(table["number"], cell)]
        for table in expected(path)["table"] for cell in cells(table) if not found(cell, records)
    ]  # fmt: skip
    return Table("Cells of the paper that were not run", MISSING_HEAD, rows)


def found(cell: dict[str, Any], records: Sequence[Record]) -> list[tuple[str, list[Record]]]:
    """Our runs of a cell with a note, for each way that noise words were drawn and each precision of the products."""
    ways = SHARED if CRITERIA[cell["criterion"]].draws else {"window": ""}
    every = [
        (", ".join(filter(None, (how, products))), find(cell, records, shared, others))
        for shared, how in ways.items()
        for others, products in PRECISION.items()
    ]
    return [(note, ours) for note, ours in every if ours]


def _which(cell: dict[str, Any]) -> list[str]:
    alpha = f"{cell['alpha']:g}" if cell.get("alpha") else "–"
    return [cell["data"], label(cell["criterion"]), str(cell["d"]), alpha]


def _command(table: int, cell: dict[str, Any]) -> str:
    only = slug(cell["data"], cell["criterion"], cell["d"], cell.get("alpha", 0.0))
    return f"selfnorm study run paper/table{table} --only {only}"


def find(cell: dict[str, Any], records: Sequence[Record], shared: str = "window", others: str = "") -> list[Record]:
    """The records of a cell (one per seed): the paper's settings throughout, but for `others`, full training."""
    name = cell["criterion"]
    wanted = {
        "data": cell["data"], "split": cell["split"], "criterion": name, "d": str(cell["d"]),
        "alpha": f"{cell.get('alpha', 0):g}", "calibration": cell.get("calibration", "none"), "epochs": "20",
    }  # fmt: skip
    usual = {**usual_parts(cell), "shared": shared} if CRITERIA[name].draws else usual_parts(cell)
    matching = [
        r
        for r in records
        if all(r.parts.get(k) == v for k, v in wanted.items())
        and all(r.parts.get(k, v if k != "shared" else "window") == v for k, v in usual.items())  # older ones lack some
        and "max_words" not in r.parts
        and r.parts.get("others", "") == others
    ]
    return list({r.parts.get("seed"): r for r in matching}.values())  # a copy is not another seed


def usual_parts(cell: dict[str, Any]) -> dict[str, str]:
    """What a signature says of the paper's settings that its tables do not list."""
    own = CRITERIA[cell["criterion"]]
    return {
        "gamma": f"{cell.get('gamma', own.gamma):g}", "k": "100", "subset": own.subset, "noise": "unigram", "shared": "window",
        "encoder": "lstm2", "squash": "yes" if cell.get("squash") else "no", "penalty": own.penalty if cell.get("alpha") else "none",
    }  # fmt: skip


def compare(paper: float | None, ours: Sequence[Record], name: str) -> list[str]:
    """Paper, ours and difference; several seeds give their mean and spread."""
    values = [float(getattr(r.measured, name)) for r in ours]
    mean = sum(values) / len(values)
    spread = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5 if len(values) > 1 else None
    return beside(paper, mean, name, "" if spread is None else f" ± {number(spread, SHOWN[name])}")


def beside(paper: float | None, ours: float | None, name: str, spread: str = "") -> list[str]:
    """The three cells "paper", "ours" and "difference", of perplexities in percent."""
    digits = SHOWN[name]
    left = "–" if paper is None else f"{paper:.{digits}f}"
    if ours is None:
        return [left, "not run", ""]
    right = number(ours, digits) + spread
    if paper is None:
        return [left, right, ""]
    gap = percent(ours / paper - 1) if "perplexity" in name else number(ours - paper, digits, sign=True)
    return [left, right, gap]

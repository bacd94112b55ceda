"""Records to tables: what we measured, and the paper's cells next to ours."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selfnorm.config.naming import slug
from selfnorm.registry.calibrations import kinds
from selfnorm.registry.criteria import CRITERIA, label
from selfnorm.report.collect import Record, in_common, name_beside

EXPECTED = Path(__file__).parent.parent / "studies" / "catalog" / "paper" / "expected.toml"


@dataclass(frozen=True)
class Table:
    """A caption, a head, rows of text, and footnotes."""

    title: str
    head: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        lines = [
            f"### {_plain(self.title)}",
            "",
            "| " + " | ".join(map(_plain, self.head)) + " |",
            "|" + " --- |" * len(self.head),
        ]
        lines += ["| " + " | ".join(map(_plain, row)) + " |" for row in self.rows]
        return "\n".join([*lines, "", *(f"{note}  " for note in self.notes), ""])


def _plain(cell: str) -> str:
    """A cell as text: names come from files of others, and Markdown lets HTML through."""
    return " ".join(cell.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").split("\n"))


def overview(records: Sequence[Record]) -> list[Table]:
    """One table per data set and split: every run and calibration, lowest perplexity first."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.parts["data"], record.parts["split"]), []).append(record)
    return [_overview(data, split, group) for (data, split), group in sorted(groups.items())]


HEAD = [
    "model",
    "d",
    "k",
    "epochs",
    "calibration",
    "mu_z",
    "sigma_z",
    "95 %",
    "perplexity",
    "95 %",
    "u_perplexity",
    "corr(H, log Z)",
    "seed",
]


def _overview(data: str, split: str, group: list[Record]) -> Table:
    rows = []
    for r in sorted(group, key=_order):
        m = r.measured
        rows.append([
            name_beside(r, group), r.parts["d"], r.k, r.parts.get("epochs", "–"),
            r.calibration, f"{m.mu_z:+.3f}", f"{m.sigma_z:.4f}", _interval(m.intervals.get("sigma_z"), 3 if m.sigma_z >= 0.02 else 4),
            f"{m.perplexity:.2f}", _interval(m.intervals.get("perplexity"), 1), f"{m.u_perplexity:.2f}",
            f"{m.correlation:+.2f}", str(m.seed),
        ])  # fmt: skip
    return Table(", ".join([data, split, *in_common(group)]), HEAD, rows)


def _order(r: Record) -> tuple[Any, ...]:
    """By size and name; a model's calibrations from none to mlp."""
    kind = kinds().index(r.calibration) if r.calibration in kinds() else len(kinds())
    return int(r.parts["d"]), r.full_name, r.k, kind, r.measured.seed


def _interval(pair: Any, digits: int) -> str:
    return "" if not pair else f"{pair[0]:.{digits}f} to {pair[1]:.{digits}f}"


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
                [f"{e['context']} [{e['next']}]", f"{e['log_z']:+.2f}", f"{e['entropy']:.2f}"]
                for e in r.measured.notes["examples"]
            ]
            others = [o for o in records if (o.parts["data"], o.parts["split"]) == (r.parts["data"], r.parts["split"])]
            where = f"d = {r.parts['d']}, {r.parts['data']} {r.parts['split']}"
            title = f"Where log Z deviates most: {name_beside(r, others)}{r.unusual_k}, {where}"
            tables.append(Table(title, ["context [next word]", "log Z", "entropy"], rows))
    return tables


# The paper's cells next to ours

SHOWN = {"mu_z": 3, "sigma_z": 3, "perplexity": 1, "u_perplexity": 1, "correlation": 2, "acc_n": 1, "delta_acc": 1}


def paper_tables(records: Sequence[Record], path: Path = EXPECTED) -> list[Table]:
    """Every cell of the paper as "paper / ours / difference"; a cell not run yet gives its command."""
    expected = tomllib.loads(path.read_text(encoding="utf-8"))
    return [_paper_table(table, records) for table in expected["table"]]


def _paper_table(table: dict[str, Any], records: Sequence[Record]) -> Table:
    numbers, cells = list(table["numbers"]), [{**table.get("all", {}), **cell} for cell in table["cell"]]
    found = [find(cell, records) for cell in cells]
    rows = [
        [*_which(cell), *(compare(cell.get(n), ours, n) for n in numbers)]
        for cell, ours in zip(cells, found, strict=True)
    ]
    head = ["data", "model", "d", "alpha", *(f"{n}: paper / ours / diff" for n in numbers)]
    if not all(found):
        head.append("not run yet; to run it")
        rows = [
            [*row, "" if ours else _command(table["number"], cell)]
            for row, ours, cell in zip(rows, found, cells, strict=True)
        ]
    return Table(f"Table {table['number']}: {table['title']}", head, rows, list(table.get("notes", [])))


def _which(cell: dict[str, Any]) -> list[str]:
    alpha = f"{cell['alpha']:g}" if cell.get("alpha") else "–"
    return [cell["data"], label(cell["criterion"]), str(cell["d"]), alpha]


def _command(number: int, cell: dict[str, Any]) -> str:
    only = slug(cell["data"], cell["criterion"], cell["d"], cell.get("alpha", 0.0))
    return f"selfnorm study run paper/table{number} --only {only}"


def find(cell: dict[str, Any], records: Sequence[Record]) -> list[Record]:
    """The records of a cell (one per seed): the paper's settings throughout, full training."""
    name = cell["criterion"]
    wanted = {
        "data": cell["data"], "split": cell["split"], "criterion": name, "d": str(cell["d"]),
        "alpha": f"{cell.get('alpha', 0):g}", "calibration": cell.get("calibration", "none"), "epochs": "20",
    }  # fmt: skip
    usual = usual_parts(cell)
    found = [
        r
        for r in records
        if all(r.parts.get(k) == v for k, v in wanted.items())
        and all(r.parts.get(k, v) == v for k, v in usual.items())  # signatures of older versions lack some
        and not {"max_words", "others"} & set(r.parts)
    ]
    return list({r.parts.get("seed"): r for r in found}.values())  # a copy is not another seed


def usual_parts(cell: dict[str, Any]) -> dict[str, str]:
    """What a signature says of the paper's settings that its tables do not list."""
    own = CRITERIA[cell["criterion"]]
    return {
        "gamma": f"{cell.get('gamma', own.gamma):g}", "k": "100", "subset": own.subset, "noise": "unigram", "shared": "window",
        "encoder": "lstm2", "squash": "yes" if cell.get("squash") else "no", "penalty": own.penalty if cell.get("alpha") else "none",
    }  # fmt: skip


def compare(paper: float | None, ours: Sequence[Record], name: str) -> str:
    """ "paper / ours / difference"; several seeds give their mean and spread."""
    values = [float(getattr(r.measured, name)) for r in ours]
    if not values:
        return beside(paper, None, name)
    mean = sum(values) / len(values)
    spread = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5 if len(values) > 1 else None
    return beside(paper, mean, name, "" if spread is None else f" ± {spread:.{SHOWN[name]}f}")


def beside(paper: float | None, ours: float | None, name: str, spread: str = "") -> str:
    """One cell: "paper / ours / difference", perplexities in percent."""
    digits = SHOWN[name]
    left = "–" if paper is None else f"{paper:.{digits}f}"
    if ours is None:
        return f"{left} / not run"
    if paper is None:
        return f"– / {ours:.{digits}f}{spread}"
    gap = f"{100 * (ours / paper - 1):+.1f} %" if "perplexity" in name else f"{ours - paper:+.{digits}f}"
    return f"{left} / {ours:.{digits}f}{spread} / {gap}"

"""The index of a folder of results: one Markdown table per study, one row per run. JSON in, text out; no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfnorm._util.errors import UserError
from selfnorm._util.files import read_text, write_text
from selfnorm.config.signature import parse_signature
from selfnorm.evaluation.measurement import Measurement
from selfnorm.registry.calibrations import kinds
from selfnorm.registry.steps import COST, TIMES
from selfnorm.report.collect import Collected, Record, collect
from selfnorm.report.number import number
from selfnorm.report.table import Table

NAME = "README.md"
FIRST = "<!-- Written by: selfnorm report FOLDER --index. Changes by hand are lost. -->"
ABOUT = """\
Each folder holds the recipe, the training history and the measurements of one run. Split, perplexity,
sigma_z, version, machine, date and command are those of one measurement: of the raw model on the test
text, else on the validation text, else on the sentences of a completion task (questions). The last
column lists everything that was measured, as split or split.calibration."""
HEAD = ["run", "model", "d", "text", "seed", "split", "perplexity", "sigma_z", "version", "machine", "date", "command"]
SPLITS = ("test", "valid", "train", "questions")  # the first that was measured is shown
Result = tuple[str, Record]  # a step, such as test.mlp or cost, and what it gave


def write_index(folder: Path) -> str:
    """Write the index of `folder` into its README.md and return the text. Any other README.md is left alone."""
    text, path = index_text(folder), folder / NAME
    if path.exists() and not read_text(path).startswith(FIRST):
        raise UserError(f"{path} is not an index that selfnorm wrote, so it was not replaced. Move it first.")
    write_text(path, text)
    return text


def index_text(folder: Path) -> str:
    """Markdown: a table for each folder that holds runs, which is a study, and in it a row for each run."""
    studies: dict[str, dict[str, list[Result]]] = {}
    for step, record in _results(collect(folder)):
        study = studies.setdefault(record.run.rpartition("/")[0], {})
        study.setdefault(record.run, []).append((step, record))
    alone = (folder / "recipe.toml").exists()  # the folder is a run itself
    tables = [_table(name or folder.resolve().name, runs, alone) for name, runs in sorted(studies.items())]
    lines = [FIRST, "", "# Results", "", ABOUT, "", *(table.markdown() for table in tables)]
    return "\n".join(lines).rstrip() + "\n"


def _results(collected: Collected) -> list[Result]:
    results = [(_step(record.parts), record) for record in collected.records]
    for kind, tables in collected.others.items():
        for record in (_as_record(table) for table in tables if "criterion:" in str(table.get("signature"))):
            results.append((kind if kind in (TIMES, COST) else _step(record.parts), record))
    return results


def _as_record(table: dict[str, Any]) -> Record:
    """The result of a task in the form of a measurement; numbers that a task does not give are NaN."""
    parts, gap = parse_signature(table["signature"]), math.nan
    perplexity, sigma_z = float(table.get("perplexity", gap)), float(table.get("sigma_z", gap))
    command, date, machine = (str(table.get(name, "")) for name in ("command", "date", "machine"))
    measured = Measurement(
        table["signature"], gap, sigma_z, perplexity, gap, gap, words=0, seconds=gap, seed=int(parts.get("seed", "0")),
        command=command, date=date, machine=machine,
    )  # fmt: skip
    return Record(table["run"], measured, parts)


def _step(parts: dict[str, str]) -> str:
    kind = parts.get("calibration", "none")
    return parts["split"] if kind == "none" else f"{parts['split']}.{kind}"


def _table(study: str, runs: dict[str, list[Result]], alone: bool) -> Table:
    rows = [_row(sorted(results, key=_order), "." if alone else run) for run, results in sorted(runs.items())]
    return Table(f"{study} ({len(rows)} {'run' if len(rows) == 1 else 'runs'})", [*HEAD, "measured"], rows)


def _order(result: Result) -> tuple[int, int, str]:
    """Raw before calibrated, test before valid, timings last: the first result is the one whose numbers are shown."""
    step, record = result
    split = step.partition(".")[0]
    calibration = kinds().index(record.calibration) if record.calibration in kinds() else len(kinds())
    timing = len(kinds()) + 1
    return timing if step in (TIMES, COST) else calibration, SPLITS.index(split) if split in SPLITS else 9, step


def _row(results: Sequence[Result], place: str) -> list[str]:
    step, shown = results[0]
    m, parts, text = shown.measured, shown.parts, _text(shown.parts)
    model = ", ".join([shown.name + shown.unusual_k, *(extra for extra in shown.extras if not text.endswith(extra))])
    return [
        f"[{shown.run.rpartition('/')[2]}]({place})", model, parts.get("d", "–"), text, parts.get("seed", "–"), step,
        number(m.perplexity, 2), number(m.sigma_z, 4), parts.get("version", "–"), m.machine, m.date,
        f"`{m.command}`", ", ".join(step for step, _ in results),
    ]  # fmt: skip


def _text(parts: dict[str, str]) -> str:
    return f"{parts['data']}, {int(parts['max_words']):,} words" if "max_words" in parts else parts["data"]

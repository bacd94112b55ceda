"""Several seeds of one recipe: the mean of each number and its spread."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

from selfnorm.report.collect import Record
from selfnorm.report.number import number
from selfnorm.report.table import Table

HEAD = ["model", "d", "k", "calibration", "seeds", "mu_z", "sigma_z", "perplexity", "u_perplexity"]
SHOWN = {"mu_z": 3, "sigma_z": 4, "perplexity": 2, "u_perplexity": 2}


def seed_tables(records: Sequence[Record]) -> list[Table]:
    """One table per text and split, with a row for every model that was trained with more than one seed."""
    alike: dict[tuple[str, ...], dict[str, Record]] = {}
    for r in records:
        rest = tuple(f"{key}:{value}" for key, value in sorted(r.parts.items()) if key not in ("seed", "version"))
        alike.setdefault((r.text, r.parts["split"], *rest), {})[r.parts.get("seed", "")] = r
    tables: dict[tuple[str, str], Table] = {}
    for (text, split, *_), by_seed in sorted(alike.items()):
        if len(by_seed) > 1:
            title = f"Over seeds: {text}, {split}; mean ± standard deviation"
            tables.setdefault((text, split), Table(title, HEAD, [])).rows.append(_row(list(by_seed.values())))
    return list(tables.values())


def _row(alike: Sequence[Record]) -> list[str]:
    first = alike[0]
    cells = []
    for name, digits in SHOWN.items():
        values = [float(getattr(r.measured, name)) for r in alike]
        cells.append(f"{number(mean(values), digits, sign=name == 'mu_z')} ± {number(stdev(values), digits)}")
    return [first.full_name, first.parts["d"], first.k, first.calibration, str(len(alike)), *cells]

"""Several seeds of one recipe: the mean of each number and its spread."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

from selfnorm.report.collect import Record
from selfnorm.report.tables import Table

HEAD = ["model", "d", "k", "calibration", "seeds", "mu_z", "sigma_z", "perplexity", "u_perplexity"]
SHOWN = {"mu_z": "+.3f", "sigma_z": ".4f", "perplexity": ".2f", "u_perplexity": ".2f"}


def seed_tables(records: Sequence[Record]) -> list[Table]:
    """One table per text and split, with a row for every model that was trained with more than one seed."""
    alike: dict[tuple[str, ...], dict[str, Record]] = {}
    for r in records:
        rest = tuple(f"{key}:{value}" for key, value in sorted(r.parts.items()) if key not in ("seed", "version"))
        alike.setdefault((r.parts["data"], r.parts["split"], *rest), {})[r.parts.get("seed", "")] = r
    tables: dict[tuple[str, str], Table] = {}
    for (data, split, *_), by_seed in sorted(alike.items()):
        if len(by_seed) > 1:
            title = f"Over seeds: {data}, {split}; mean ± standard deviation"
            tables.setdefault((data, split), Table(title, HEAD, [])).rows.append(_row(list(by_seed.values())))
    return list(tables.values())


def _row(alike: Sequence[Record]) -> list[str]:
    first = alike[0]
    cells = []
    for name, form in SHOWN.items():
        values = [float(getattr(r.measured, name)) for r in alike]
        cells.append(f"{mean(values):{form}} ± {stdev(values):{form.lstrip('+')}}")
    return [first.full_name, first.parts["d"], first.k, first.calibration, str(len(alike)), *cells]

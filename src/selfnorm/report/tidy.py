"""Every measurement as one row of numbers, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from selfnorm.report.collect import Record
from selfnorm.report.factors import Factors, plain

NUMBERS = ("mu_z", "sigma_z", "perplexity", "u_perplexity", "correlation", "words")


def tidy(records: Sequence[Record], studies: Sequence[Factors] = ()) -> str:
    """One head, one row per measurement: the run, the parts of its signature, the numbers, the ends of their 95 % intervals, and a
    column for each factor of a study."""
    parts = list(dict.fromkeys(key for r in records for key in r.parts))
    bounded = [n for n in NUMBERS if any(n in r.measured.intervals for r in records)]
    ends = [f"{name}_{end}" for name in bounded for end in ("low", "high")]
    factors = list(dict.fromkeys(name for study in studies for name in study.names))
    settings = {run: own for study in studies for run, own in study.settings.items()}
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["run", "model", *parts, *NUMBERS, *ends, *factors])
    for r in records:
        numbers = [getattr(r.measured, name) for name in NUMBERS]
        intervals = [value for name in bounded for value in r.measured.intervals.get(name, ("", ""))]
        own = [plain(settings.get(r.run, {}).get(name, "")) for name in factors]
        writer.writerow([r.run, r.full_name, *(r.parts.get(key, "") for key in parts), *numbers, *intervals, *own])
    return text.getvalue()

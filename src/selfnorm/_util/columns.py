"""Columns of equal length to a file: CSV, JSON lines, or Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from selfnorm._util.errors import UserError, missing_extra
from selfnorm._util.files import atomic


def ending_of(path: Path) -> str:
    """The ending of a file of columns, which names its format."""
    if path.suffix not in (".csv", ".jsonl", ".parquet"):
        raise UserError(f"{path}: the file must end in .csv, .jsonl or .parquet.")
    return path.suffix


def write_columns(path: Path, columns: Mapping[str, np.ndarray], ending: str) -> None:
    """Write the columns in the format of this ending; where `path` is what a link leads to, it may have another."""
    if ending == ".parquet":
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise missing_extra("pyarrow", "parquet", "Writing Parquet") from None
        with atomic(path) as temporary:
            parquet.write_table(pyarrow.table({name: list(values) for name, values in columns.items()}), temporary)
        return
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as handle:
        if ending == ".csv":
            writer = csv.writer(handle)
            writer.writerow(columns)
            writer.writerows(rows)
        else:
            handle.writelines(
                json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n" for row in rows
            )

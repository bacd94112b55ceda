"""What a file must hold, as a value: numbers in a range, texts, lists and tables. `check` says which entry is wrong.

A schema is a function of a value: None if it fits, else what was expected, after the path to the entry that does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from selfnorm._util.errors import UserError

Schema = Callable[[Any], str | None]
HUGE = 1e300


def check(value: Any, schema: Schema, path: Path | str, todo: str) -> None:
    """Raise UserError with the file, the entry and what to do, unless the value fits."""
    problem = schema(value)
    if problem is not None:
        raise UserError(f"{path} {problem}. {todo}")


def number(low: float = -HUGE, high: float = HUGE, nan: bool = False) -> Schema:
    """A number from low to high; with `nan` also what is not a finite number."""

    def fits(value: Any) -> str | None:
        right = isinstance(value, int | float) and not isinstance(value, bool)
        if right and (low <= value <= high or (nan and isinstance(value, float) and not math.isfinite(value))):
            return None
        return f"should be a number from {low:g} to {high:g}, but is {_shown(value)}"

    return fits


def count(high: float = 2**53) -> Schema:
    def fits(value: Any) -> str | None:
        right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= high
        return None if right else f"should be a whole number from 0 on, but is {_shown(value)}"

    return fits


def text(value: Any) -> str | None:
    """A string that can be written as UTF-8: JSON can name half characters that cannot."""
    if not isinstance(value, str):
        return f"should be text, but is {_shown(value)}"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "holds half of a character"
    return None


def anything(value: Any) -> str | None:
    return None


def one_of(*schemas: Schema) -> Schema:
    return lambda value: None if any(fits(value) is None for fits in schemas) else schemas[0](value)


def nothing(value: Any) -> str | None:
    return None if value is None else "should be null"


def each(schema: Schema, length: int | None = None) -> Schema:
    """A list whose every entry fits, of so many entries if that is given."""

    def fits(value: Any) -> str | None:
        if not isinstance(value, list) or (length is not None and len(value) != length):
            return f"should be a list{f' of {length}' if length is not None else ''}, but is {_shown(value)}"
        problems = ((place, schema(entry)) for place, entry in enumerate(value))
        return next((f"[{place}] {problem}" for place, problem in problems if problem is not None), None)

    return fits


def rows_of(schema: Schema) -> Schema:
    """A list of lists of one length: a table of numbers."""

    def fits(value: Any) -> str | None:
        problem = each(each(schema))(value)
        uneven = problem is None and len({len(row) for row in value}) > 1
        return "has rows of different lengths" if uneven else problem

    return fits


def table(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """A table with these entries; others may be there and are not looked at."""

    def fits(value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"should be a table, but is {_shown(value)}"
        missing = [name for name in required if name not in value]
        if missing:
            return f"has no {missing[0]}"
        known = {**(optional or {}), **required}
        problems = ((name, known[name](value[name])) for name in known if name in value)
        return next((f"{name} {problem}" for name, problem in problems if problem is not None), None)

    return fits


def values_of(schema: Schema) -> Schema:
    """A table of any names whose every value fits."""

    def fits(value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"should be a table, but is {_shown(value)}"
        problems = ((name, text(name) or schema(entry)) for name, entry in value.items())
        return next((f"{name!a} {problem}" for name, problem in problems if problem is not None), None)

    return fits


def _shown(value: Any) -> str:
    """A value as an error shows it: short, whatever it holds."""
    if isinstance(value, int) and abs(value) > 10**30:
        return "a huge number"
    if isinstance(value, list | dict):
        return f"a {'list' if isinstance(value, list) else 'table'} of {len(value)}"
    shown = ascii(value) if isinstance(value, str) else repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "…"

"""What exists, by name: criteria, calibrations, encoders, data sets, list formats, study steps.

No torch here, so that plans, reports and --help can ask. Each entry names the code that does the work as "module:attribute"; it is
imported when it is needed. An addition is one file and one line in the registry of its kind.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeVar

from selfnorm._util.errors import UserError, nearest

T = TypeVar("T")


class Registry(dict[str, T]):
    """Entries by name; an unknown name is an error that lists the known ones and suggests the nearest."""

    def __init__(self, what: str, entries: dict[str, T]) -> None:
        super().__init__(entries)
        self.what = what

    def find(self, name: str) -> T:
        if name not in self:
            raise UserError(f'{self.what} "{name}" is unknown.{nearest(name, self)} Known: {", ".join(self)}.')
        return self[name]


def load(target: str) -> Any:
    """The object that "module:attribute" names."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)

"""What exists, by name: criteria, calibrations, encoders, data sets, list formats, study steps.

No torch here, so that plans, reports and --help can ask. Each entry names the code that does the work as "module:attribute"; it is
imported when it is needed. An addition is one file and one line in the registry of its kind.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from selfnorm._util.errors import UnknownName, UserError, nearest

T = TypeVar("T")


class Registry(dict[str, T]):
    """Entries by name; an unknown name is an error that lists the known ones and suggests the nearest."""

    def __init__(self, what: str, entries: dict[str, T]) -> None:
        super().__init__(entries)
        self.what = what

    def find(self, name: str) -> T:
        if name not in self:
            load_plugins()
        if name not in self:
            raise UnknownName(
                f'{self.what} "{name}" is unknown.{nearest(name, self)} Known: {", ".join(self)}. '
                "One of your own is found if SELFNORM_PLUGINS names the module that registers it."
            )
        return self[name]


def load(target: str) -> Any:
    """The object that "module:attribute" names."""
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ModuleNotFoundError, AttributeError) as error:
        raise UserError(f'The registry names "{target}", which cannot be imported: {error}.') from error


def load_plugins() -> None:
    """Import the modules that SELFNORM_PLUGINS names, separated by commas: each registers what it adds."""
    for name in filter(None, os.environ.get("SELFNORM_PLUGINS", "").split(",")):
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        try:
            import_module(name.strip())
        except ImportError as error:
            raise UserError(f"SELFNORM_PLUGINS names {name.strip()!r}, which cannot be imported: {error}.") from error

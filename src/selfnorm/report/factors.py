"""A study's own question: which settings were varied, and what each of them does.

The factors are the keys of the study's grids, from its built-in TOML file or from the study.json that `study run` writes, and whatever
else its runs differ in: runs are only compared where nothing but one factor is different.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from selfnorm._util.errors import UserError
from selfnorm.registry.criteria import CRITERIA
from selfnorm.report.collect import Collected, Record
from selfnorm.studies.plan import about

OWN = ("alpha", "gamma", "subset", "penalty")  # settings whose default is the criterion's own
SEED = "training.seed"
UNVARIED = (  # what changes no weight; validating seldom can only miss the best epoch, which is hardly ever not the last
    "data.folder", "data.file", "training.threads", "training.checkpoint_minutes", "training.device",
    "training.validate_epochs", "training.validate_minutes",
)  # fmt: skip


@dataclass(frozen=True)
class Factors:
    """The raw models of a study on one split, and the settings that were varied."""

    name: str
    title: str
    where: str  # the split
    names: list[str]
    records: list[Record]
    settings: dict[str, dict[str, Any]]  # by run
    defaults: dict[str, str]

    def value(self, record: Record, factor: str) -> str:
        """A setting as a column shows it: the default too; "default" where it is the criterion's own."""
        settings = self.settings[record.run]
        section, _, key = factor.partition(".")
        criterion = CRITERIA.get(settings.get("criterion.name", ""))
        mine = settings.get(factor, "")
        if section == "criterion" and key in OWN and criterion is not None and mine == getattr(criterion, key):
            return f"default ({plain(mine)})" if plain(mine) else "default"
        return plain(mine)

    def key(self, record: Record, factor: str) -> str:
        """The value by which runs are compared: every criterion's own is one value."""
        value = self.value(record, factor)
        return "default" if value.startswith("default") else value

    def values(self, factor: str) -> list[str]:
        """The values that occur, numbers in order."""
        return sorted({self.key(r, factor) for r in self.records}, key=_order)

    def groups(self, factor: str) -> dict[tuple[str, ...], dict[str, Record]]:
        """Runs that differ in nothing but this factor: by the values of the others, then by its own value."""
        others = [name for name in self.names if name != factor]
        found: dict[tuple[str, ...], dict[str, Record]] = {}
        for r in self.records:
            found.setdefault(tuple(self.key(r, name) for name in others), {}).setdefault(self.key(r, factor), r)
        return {rest: runs for rest, runs in sorted(found.items()) if len(runs) > 1}

    def rest_of(self, factor: str) -> tuple[list[str], list[int]]:
        """The other factors, and the places of as many of them as are needed to tell the groups of this one apart."""
        others = [name for name in self.names if name != factor]
        groups, kept, told = list(self.groups(factor)), list[int](), 1
        for place, _ in enumerate(others):
            more = len({tuple(rest[i] for i in [*kept, place]) for rest in groups})
            if more > told:
                kept, told = [*kept, place], more
        return others, kept

    def varied(self) -> list[str]:
        """Factors with more than one value, the seed last."""
        return sorted((n for n in self.names if len(self.values(n)) > 1), key=lambda n: n == SEED)


def studies(collected: Collected, root: str) -> list[Factors]:
    """One for each folder that holds runs, and each kind of text that was measured in it."""
    folders: dict[str, list[Record]] = {}
    raw = [r for r in collected.records if r.calibration == "none" and r.run in collected.settings]
    for r in raw:
        folders.setdefault(r.run.rpartition("/")[0], []).append(r)
    for folder, mine in folders.items():  # a run that two studies ask for is trained once, and is in one folder
        planned = set(_built_in(folder.rpartition("/")[2] or root).get("runs", []))
        have = {r.run.rpartition("/")[2] for r in mine}
        mine += [r for r in raw if r.run.rpartition("/")[2] in planned - have]
    found = []
    for folder, records in sorted(folders.items()):
        splits = [split for split in ("test", "valid", "train") if any(r.parts["split"] == split for r in records)]
        chosen = [r for r in records if splits and r.parts["split"] == splits[0]]
        if len({r.run for r in chosen}) > 1:
            found.append(_study(folder, root, chosen, collected, splits[0]))
    return found


def _study(folder: str, root: str, records: list[Record], collected: Collected, split: str) -> Factors:
    name = folder.rpartition("/")[2] or root
    settings = {r.run: collected.settings[r.run] for r in records}
    known = collected.studies.get(folder) or _built_in(name)
    differing = [key for key in next(iter(settings.values())) if len({str(s[key]) for s in settings.values()}) > 1]
    differing = [key for key in differing if key not in UNVARIED]
    grid = [key for key in known.get("factors", []) if key in next(iter(settings.values()))]
    defaults = {key: plain(value) for key, value in known.get("defaults", {}).items()}
    title = str(known.get("title", "")) or name
    made = Factors(name, title, split, grid, _unique(records), settings, defaults)
    more = [key for key in differing if key not in grid and len(made.values(key)) > 1]  # each criterion's own is one
    return replace(made, names=[*grid, *more])


def _unique(records: Sequence[Record]) -> list[Record]:
    return list({r.run: r for r in records}.values())


def _built_in(name: str) -> dict[str, Any]:
    try:
        return about(name)
    except UserError:
        return {}


def plain(value: Any) -> str:
    """A setting as text: 0.1, yes, nce."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _order(value: str) -> tuple[int, float, str]:
    return (0, float(value), value) if is_number(value) else (1, 0.0, value)

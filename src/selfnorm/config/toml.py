"""A recipe to and from TOML, and the `section.key=value` changes of the command line. An unknown key is an error."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import tomli_w

from selfnorm._util.errors import UserError, nearest
from selfnorm._util.files import parse_toml, read_text, write_text
from selfnorm.config.limits import check
from selfnorm.config.recipe import CriterionSettings, Data, Model, Recipe, Training
from selfnorm.registry.datasets import DATASETS

SECTIONS: dict[str, type[Any]] = {
    "data": Data,
    "model": Model,
    "criterion": CriterionSettings,
    "training": Training,
}
DENSIFIES = {"momentum", "weight_decay", "nesterov", "adam"}


def read_recipe(path: Path | None, changes: Sequence[str] = ()) -> Recipe:
    """The recipe in `path` (or the defaults), with `section.key=value` changes applied."""
    table: dict[str, Any] = {}
    if path is not None:
        table = parse_toml(read_text(path), str(path))
    return from_table(table, str(path or "the command line"), changes)


def from_table(table: Mapping[str, Any], where: str, changes: Sequence[str] = ()) -> Recipe:
    """The recipe in a table; what no run can use is refused."""
    recipe = base_of(table, where, changes)
    check(recipe)
    return recipe


def base_of(table: Mapping[str, Any], where: str, changes: Sequence[str] = ()) -> Recipe:
    """The same where only names and types are checked: a study's base recipe need not be one that can be trained."""
    for name in SECTIONS:
        if not isinstance(table.get(name, {}), Mapping):
            raise UserError(f"{where}: {name} must be a section, written [{name}], not a value.")
    merged = {name: dict(table.get(name, {})) for name in SECTIONS}
    for name in table:
        if name not in SECTIONS:
            raise UserError(
                f"{where}: unknown section [{name}].{nearest(name, SECTIONS)} Known: {', '.join(SECTIONS)}."
            )
    for change in changes:
        section, key, value = _split(change)
        merged[section][key] = value
    if merged["data"].get("file") and "name" not in merged["data"]:
        stem = Path(str(merged["data"]["file"])).stem
        merged["data"]["name"] = f"my-{stem}" if stem in DATASETS else stem
    parts = {name: _section(kind, merged[name], f"{where}: [{name}]") for name, kind in SECTIONS.items()}
    return Recipe(**parts)


def change(recipe: Recipe, changes: Sequence[str]) -> Recipe:
    """The recipe with `section.key=value` changes applied."""
    return from_table(asdict(recipe), "the recipe", changes)


def recipe_text(recipe: Recipe) -> str:
    return tomli_w.dumps(asdict(recipe))


def write_recipe(path: Path, recipe: Recipe) -> None:
    write_text(path, recipe_text(recipe))


def as_toml(value: Any) -> str:
    """A value as TOML writes it, for `section.key=value`."""
    return tomli_w.dumps({"value": value}).partition("=")[2].strip()


def _split(change: str) -> tuple[str, str, Any]:
    name, equals, text = change.partition("=")
    section, dot, key = name.partition(".")
    if not equals or not dot or section not in SECTIONS:
        owners = [owner for owner, kind in SECTIONS.items() if name in (f.name for f in fields(kind))]
        hint = f' Did you mean "{owners[0]}.{change}"?' if owners and equals else ""
        raise UserError(
            f"--set {change}: expected section.key=value, for example criterion.alpha=10.{hint} Sections: {', '.join(SECTIONS)}."
        )
    try:
        return section, key, tomllib.loads(f"value = {text}")["value"]
    except (
        ValueError,
        RecursionError,
    ):  # tomllib's own error is one, and so is Python's of a number with thousands of digits
        return section, key, text  # a bare word is a string


def _section(kind: type[Any], values: Mapping[str, Any], where: str) -> Any:
    defaults = {f.name: f.default for f in fields(kind)}
    chosen: dict[str, Any] = {}
    for key, value in values.items():
        if key in DENSIFIES and key not in defaults:
            raise UserError(
                f"{where}: {key} is not offered. It would touch every row of the word tables at every step, so that a "
                "sampled criterion would cost as much as the softmax it replaces. The paper's SGD has none; remove it."
            )
        if key not in defaults:
            raise UserError(f"{where}: unknown key {key}.{nearest(key, defaults)} Known: {', '.join(defaults)}.")
        chosen[key] = _typed(value, defaults[key], f"{where} {key}")
    return kind(**chosen)


def _typed(value: Any, default: Any, where: str) -> Any:
    kind = type(default)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 2**1000 else math.inf
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{where} = {value}: a finite number was expected (default {default!r}).")
    if type(value) is not kind:
        raise UserError(
            f"{where} = {_shown(value)} is {type(value).__name__}, but {kind.__name__} was expected (default {default!r})."
        )
    if kind is int and abs(value) >= 10**1000:
        raise UserError(f"{where}: a number of fewer digits was expected (default {default!r}).")
    if kind is str and ("\0" in value or len(value) > 4096):
        raise UserError(f"{where}: a short text without zero bytes was expected (default {default!r}).")
    return value


def _shown(value: Any) -> str:
    return "…" if isinstance(value, int) and abs(value) >= 10**1000 else ascii(value)[:60]

"""A study is a TOML file: a base recipe and grids that expand to runs. Equal runs of different tables are one run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from selfnorm._util.errors import UserError
from selfnorm._util.files import parse_toml, read_json, read_text, write_json
from selfnorm.config.criterion import settle
from selfnorm.config.limits import check
from selfnorm.config.naming import run_name
from selfnorm.config.recipe import Recipe
from selfnorm.config.toml import SECTIONS, as_toml, base_of
from selfnorm.registry.criteria import CRITERIA
from selfnorm.registry.steps import check_step

BUILT_IN = Path(__file__).parent / "catalog"


@dataclass(frozen=True)
class Planned:
    """One run of a study: its folder name, its recipe and what is measured after training."""

    name: str
    recipe: Recipe
    then: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    title: str
    planned: tuple[Planned, ...]


def find_studies(name: str) -> list[Path]:
    """A TOML file of the user's, a built-in one (paper/table1), or a built-in folder of them (paper)."""
    for path in (Path(name), BUILT_IN / name, BUILT_IN / f"{name}.toml"):
        if path.is_file():
            return [path]
        if path.is_dir() and sorted(path.glob("table*.toml")):
            return sorted(path.glob("table*.toml"))
    known = sorted(
        str(p.relative_to(BUILT_IN).with_suffix("")) for p in BUILT_IN.rglob("*.toml") if p.name != "expected.toml"
    )
    raise UserError(f"{name} is neither a study file nor built in. Built in: paper, {', '.join(known)}.")


def read_study(name: str, changes: Sequence[str] = (), seeds: int = 1) -> Study:
    """All runs of the named study or folder of studies, each once, with `--set` changes and seeds 1..n applied."""
    titles, planned = [], dict[str, Planned]()
    for path in find_studies(name):
        table = parse_toml(read_text(path), str(path))
        titles.append(str(table.get("title", path.stem)))
        then = _then(table, str(path))
        for recipe in _expand(table, str(path), changes, seeds):
            slug = run_name(recipe)
            before = planned[slug].then if slug in planned else ()
            if slug in planned and _beside_the_name(planned[slug].recipe) != _beside_the_name(recipe):
                raise UserError(
                    f"{path}: two runs would both be called {slug}: they differ only in where their text is, or in "
                    "validate_epochs or validate_minutes. Give the texts different data.name, or make two studies."
                )
            planned[slug] = Planned(slug, recipe, tuple(dict.fromkeys((*before, *_possible(recipe, then)))))
    return Study(", ".join(titles), tuple(planned.values()))


def about(name: str, changes: Sequence[str] = ()) -> dict[str, Any]:
    """What a report needs to know of a study: its title, the factors of its grids, and their values in the base recipe."""
    tables = [parse_toml(read_text(path), str(path)) for path in find_studies(name)]
    factors = list(dict.fromkeys(key for table in tables for grid in table.get("grid", []) for key in grid))
    base = [base_of(table.get("recipe", {}), name, changes) for table in tables]
    defaults = {}
    for key in factors:
        section, _, setting = key.partition(".")
        values = {getattr(getattr(recipe, section), setting) for recipe in base}
        if len(values) == 1:
            defaults[key] = values.pop()
    titles = [str(table.get("title", name)) for table in tables]
    title = titles[0] if len(titles) == 1 else f"all {len(titles)} tables"
    runs = [planned.name for planned in read_study(name, changes).planned]
    return {"study": name, "title": title, "factors": factors, "defaults": defaults, "runs": runs}


def note_study(folder: Path, known: dict[str, Any]) -> None:
    """Write study.json, from which a report takes title and factors. Studies that share a folder share the file."""
    path = folder / "study.json"
    before = read_json(path) if path.exists() else known
    if before.get("study") != known["study"]:
        titles = dict.fromkeys([*str(before.get("title", "")).split("; "), known["title"]])
        factors = list(dict.fromkeys([*before.get("factors", []), *known["factors"]]))
        known = {
            "study": "",
            "title": "; ".join(titles),
            "factors": factors,
            "defaults": {**before.get("defaults", {}), **known["defaults"]},
            "runs": [*before.get("runs", []), *known["runs"]],
        }
    write_json(path, known)


def chosen(study: Study, only: Sequence[str]) -> list[Planned]:
    """The runs whose names have one of these as whole parts: ptb-nce-d30 means neither nce_r nor d300."""
    parts = [f"-{text.strip('-')}-" for text in only]
    found = [p for p in study.planned if not parts or any(part in f"-{p.name}-" for part in parts)]
    if not found:
        raise UserError(
            f"--only {' '.join(only)} matches no run of {study.title}. Whole parts of a name were expected, such as nce, d100, "
            "ptb-nce-d30 or softmax-d100-s1; `selfnorm study plan` shows the names."
        )
    return found


def _then(table: dict[str, Any], where: str) -> tuple[str, ...]:
    steps = table.get("then", ["valid"])
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise UserError(f'{where}: then = {steps!r}: a list of steps was expected, such as ["valid", "test.mlp"].')
    for step in steps:
        check_step(step)
    return tuple(steps)


def _possible(recipe: Recipe, then: Sequence[str]) -> list[str]:
    """A model that is normalized by construction has nothing to calibrate."""
    return [step for step in then if "." not in step or CRITERIA.find(recipe.criterion.name).pins != "normalized"]


def _expand(table: dict[str, Any], where: str, changes: Sequence[str], seeds: int) -> Iterable[Recipe]:
    unknown = set(table) - {"title", "then", "recipe", "grid"}
    if unknown:
        raise UserError(f"{where}: unknown key {sorted(unknown)[0]}. Known: title, then, recipe, grid.")
    if not {"recipe", "grid"} & set(table):
        raise UserError(f"{where} has neither [recipe.…] nor [[grid]]: there is nothing to train (docs/studies.md).")
    grids = table.get("grid", [{}])
    if not isinstance(grids, list) or not all(isinstance(g, dict) and [] not in g.values() for g in grids):
        raise UserError(
            f'{where}: a grid is written [[grid]], with lines such as "model.d" = [30, 100]; no list may be empty.'
        )
    if not isinstance(table.get("recipe", {}), dict):
        raise UserError(f"{where}: the base recipe is written in sections such as [recipe.model].")
    base_of(table.get("recipe", {}), where)  # what is wrong with it is said first
    if not grids:
        raise UserError(
            f"{where}: there is no grid, so there is nothing to train. Leave `grid` out to train the base recipe."
        )
    if seeds < 1:
        raise UserError(f"--seeds {seeds}: at least 1 was expected.")
    own = any("training.seed" in grid for grid in grids) or any(c.startswith("training.seed=") for c in changes)
    if seeds > 1 and (own or "seed" in table.get("recipe", {}).get("training", {})):
        raise UserError(
            f"--seeds {seeds} would take seeds 1 to {seeds}, but training.seed is given too. Leave one of them out."
        )
    for key, value in ((key, value) for grid in grids for key, value in grid.items()):
        if key.partition(".")[0] not in SECTIONS or "." not in key or isinstance(value, dict):
            raise UserError(
                f'{where}: {key} in a grid: a section and a key in quotes were expected, such as "criterion.name" = ["nce", "softmax"]. '
                f"Sections: {', '.join(SECTIONS)}."
            )
    for grid in grids:
        axes = [[(key, value) for value in _values(key, values)] for key, values in grid.items()]
        for point in itertools.product(*axes):
            settings = [f"{key}={_plain(value, key, where)}" for key, value in point]
            for seed in range(1, seeds + 1):
                seeded = [f"training.seed={seed}"] if seeds > 1 else []
                yield _recipe(table.get("recipe", {}), where, settings, [*seeded, *changes])


def _recipe(base: dict[str, Any], where: str, settings: list[str], changes: list[str]) -> Recipe:
    """The base recipe with the settings of one point of a grid. Where the two cannot go together, the error says which point."""
    recipe = base_of(base, where, [*settings, *changes])
    try:
        check(recipe)
        return replace(recipe, criterion=settle(recipe.criterion))
    except UserError as error:
        if not settings:
            raise
        raise UserError(
            f"{where}: {error} (The run with {', '.join(settings)}.) A setting for some runs only belongs in a [[grid]] of its own."
        ) from None


def _values(key: str, values: Any) -> list[Any]:
    """The values of a grid's line. "criterion.name" = "*" is every criterion, "* -nce_r" all but that one."""
    if key == "criterion.name" and isinstance(values, str) and values.startswith("*"):
        star, *words = values.split()
        if star != "*" or not all(word.startswith("-") for word in words):
            raise UserError(
                f'"criterion.name" = "{values}": "*" was expected, or "*" and criteria to leave out, as in "* -nce_r".'
            )
        without = {CRITERIA.find(word.removeprefix("-")) and word.removeprefix("-") for word in words}
        return [name for name in CRITERIA if name not in without]
    return values if isinstance(values, list) else [values]


def _plain(value: Any, key: str, where: str) -> str:
    if not isinstance(value, str | int | float):
        raise UserError(f"{where}: {key} = {value!r}: a number, a word, true or false was expected.")
    return as_toml(value)


def _beside_the_name(recipe: Recipe) -> tuple[Path, Path, int, float]:
    """What can change the numbers and is not in a run's name."""
    data, training = recipe.data, recipe.training
    return Path(data.folder).resolve(), data.path.resolve(), training.validate_epochs, training.validate_minutes

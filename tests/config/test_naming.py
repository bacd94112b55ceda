"""Names of runs: finished runs keep theirs when a setting is added."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from selfnorm.config import naming
from selfnorm.config.naming import run_name
from selfnorm.config.recipe import Recipe
from selfnorm.config.toml import change, read_recipe

RESULTS = Path(__file__).parent.parent.parent / "results"
# The text of the swbd runs was named by another path when they were planned than when they were stored.
RUNS = sorted(path for path in RESULTS.rglob("recipe.toml") if not path.parent.name.startswith("swbd"))


def test_there_are_committed_runs() -> None:
    assert len(RUNS) > 50


@pytest.mark.parametrize("path", RUNS, ids=lambda p: p.parent.name)
def test_committed_runs_keep_their_names(path: Path) -> None:
    assert run_name(read_recipe(path)) == path.parent.name


def test_a_new_setting_renames_a_run_only_where_it_is_used() -> None:
    plain = Recipe()
    assert run_name(change(plain, ["model.heads=4"])) == run_name(plain), "the default"
    assert run_name(change(plain, ["model.heads=2"])) != run_name(plain)
    assert run_name(change(plain, ["data.tokens=words"])) != run_name(plain)


def test_every_setting_is_in_the_name_or_said_to_be_free() -> None:
    for section in ("data", "model", "criterion", "training"):
        settings = vars(getattr(Recipe(), section))
        free = naming.NEVER.get(section, ())
        assert set(naming.ALWAYS[section]) <= set(settings) and set(free) <= set(settings)


def test_where_the_text_is_does_not_matter() -> None:
    plain = Recipe()
    assert run_name(replace(plain, data=replace(plain.data, folder="/elsewhere"))) == run_name(plain)


def test_an_encoder_whose_name_ends_in_a_digit_is_apart_from_its_layers() -> None:
    from selfnorm.config.recipe import Model
    from selfnorm.config.signature import signature_parts

    shown = [signature_parts(Recipe(model=Model(encoder=name)), "test")["encoder"] for name in ("lstm", "window3")]
    assert shown == ["lstm2", "window3-2"]

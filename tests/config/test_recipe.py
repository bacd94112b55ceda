"""Recipes: the paper's defaults, one TOML, and errors that help."""

from __future__ import annotations

from pathlib import Path

import pytest

from selfnorm._util.errors import UserError
from selfnorm.config.recipe import Recipe
from selfnorm.config.toml import change, read_recipe, write_recipe
from selfnorm.training.loop import learning_rate


def test_the_defaults_are_the_papers() -> None:
    r = Recipe()
    assert (r.model.layers, r.model.dropout, r.criterion.k) == (2, 0.5, 100)
    t = r.training
    assert (t.epochs, t.batch, t.steps, t.learning_rate, t.decay, t.clip) == (20, 20, 20, 1.0, 1.2, 5.0)


def test_the_rate_falls_by_1_2_after_every_epoch_starting_after_epoch_6() -> None:
    rates = [learning_rate(Recipe().training, epoch) for epoch in (1, 6, 7, 8, 20)]
    assert rates == pytest.approx([1, 1, 1 / 1.2, 1 / 1.2**2, 1 / 1.2**14])


def test_a_recipe_survives_its_file(tmp_path: Path) -> None:
    recipe = change(Recipe(), ["criterion.name=devlin", "criterion.alpha=10", "model.squash=true", 'data.folder="a b"'])
    write_recipe(tmp_path / "r.toml", recipe)
    assert read_recipe(tmp_path / "r.toml") == recipe


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("criterion.alhpa=1", 'Did you mean "alpha"'),
        ("criterium.alpha=1", "expected section.key=value"),
        ("criterion.alpha", "expected section.key=value"),
        ("model.d=big", "int was expected"),
        ("model.d=0", "at least 1"),
        ("criterion.gamma=1.5", "share of contexts"),
        ("criterion.gamma=0", "share of contexts"),
        ("criterion.shared=batch", "window, step or token"),
        ("training.momentum=0.9", "every row of the word tables"),
        ("training.weight_decay=0.1", "every row of the word tables"),
        ("training.clip=-1", "above 0"),
        ("training.threads=10000000000", "as many as there are cores"),
        ("training.decay=1e30", "not so large"),
        ("criterion.alpha=1" + "0" * 400, "a finite number"),
    ],
)
def test_a_wrong_value_says_what_to_do(wrong: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        read_recipe(None, [wrong])


def test_batch_nce_needs_other_streams() -> None:
    with pytest.raises(UserError, match="at least 2"):
        read_recipe(None, ["criterion.name=nce_batch", "training.batch=1"])


def test_an_unknown_section_suggests_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text("[trainning]\nepochs = 3\n")
    with pytest.raises(UserError, match='Did you mean "training"'):
        read_recipe(tmp_path / "r.toml")

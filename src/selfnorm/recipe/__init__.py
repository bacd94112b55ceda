"""Recipe: every dial of a run in one TOML file."""

from dataclasses import replace

from selfnorm.recipe.dials import CriterionSettings, Data, Model, Recipe, Training
from selfnorm.recipe.limits import check
from selfnorm.recipe.toml import as_toml, change, from_table, read_recipe, write_recipe

__all__ = [
    "CriterionSettings",
    "Data",
    "Model",
    "Recipe",
    "Training",
    "as_toml",
    "change",
    "check",
    "from_table",
    "read_recipe",
    "replace",
    "write_recipe",
]

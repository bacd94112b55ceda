"""Names of runs: the main choices, and a short hash of every setting that changes the numbers.

A setting that came after version 0.2.0 enters the hash only where it differs from its default, so that adding one never renames a
finished run. The settings of 0.2.0 always enter it: that keeps the names that runs have.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from selfnorm.config.recipe import Recipe

ALWAYS = {
    "data": ("name", "file", "min_count", "max_words"),
    "model": ("d", "layers", "encoder", "dropout", "init", "tied", "squash"),
    "criterion": ("name", "alpha", "gamma", "subset", "k", "noise", "power", "shared", "penalty"),
    "training": ("epochs", "batch", "steps", "learning_rate", "decay", "decay_after", "clip", "seed"),
}
NEVER = {  # where the text is, and what changes no weight
    "data": ("folder",),
    "training": ("threads", "checkpoint_minutes", "validate_epochs", "validate_minutes", "device"),
}


def run_name(recipe: Recipe) -> str:
    """A folder name: ptb-nce_r-a10-d100-s1-3b58a7."""
    c = recipe.criterion
    first = slug(recipe.data.name, c.name, recipe.model.d, c.alpha, c.k)
    return f"{first}-s{recipe.training.seed}-{_digest(recipe)}"


def slug(data: str, criterion: str, d: int, alpha: float = 0.0, k: int = 100) -> str:
    """The first parts of a run's name, as `study run --only` takes them: ptb-nce_r-a10-d100."""
    weight = f"-a{alpha:g}" if alpha > 0 else ""
    draws = f"-k{k}" if k != 100 else ""
    return f"{data}-{criterion}{weight}{draws}-d{d}"


def _digest(recipe: Recipe) -> str:
    mine, plain = asdict(recipe), asdict(Recipe())
    mine["data"]["file"] = Path(recipe.data.file).name
    table: dict[str, dict[str, Any]] = {}
    for section, values in mine.items():
        free = NEVER.get(section, ())
        table[section] = {
            key: value
            for key, value in values.items()
            if key not in free and (key in ALWAYS[section] or value != plain[section][key])
        }
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:6]

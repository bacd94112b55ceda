"""Signature: every choice a number depends on, in one line."""

from __future__ import annotations

from selfnorm import __version__
from selfnorm.config.recipe import Recipe

OTHERS = {
    "data": ("min_count", "tokens"),
    "model": ("dropout", "init", "tied", "heads", "memory"),
    "training": (
        "batch",
        "steps",
        "learning_rate",
        "decay",
        "decay_after",
        "clip",
        "optimizer",
        "dense_rate",
        "precision",
    ),
}
IN_SIGNATURE = ("data", "split", "criterion", "d")


def signature(
    recipe: Recipe, split: str, calibration: str = "none", trained: float | None = None, fitted: str = ""
) -> str:
    """data:ptb|split:test|criterion:nce_r|…: every choice a number depends on, in one line."""
    parts = signature_parts(recipe, split, calibration, trained, fitted)
    return "|".join(f"{key}:{value}" for key, value in parts.items())


def signature_parts(
    recipe: Recipe, split: str, calibration: str = "none", trained: float | None = None, fitted: str = ""
) -> dict[str, str]:
    """The parts of a signature by name.

    A run whose training has not come to its end says how far it is: epochs:2 of 20. `fitted` is how a calibration was.
    """
    d, m, c, t = recipe.data, recipe.model, recipe.criterion, recipe.training
    parts: dict[str, object] = {
        "data": d.name,
        "split": split,
        "criterion": c.name,
        "alpha": f"{c.alpha:g}",
        "gamma": f"{c.gamma:g}",
        "subset": c.subset,
        "k": c.k,
        "noise": c.noise + (f"^{c.power:g}" if c.power != 1 else ""),
        "shared": c.shared,
        "penalty": c.penalty if c.alpha > 0 else "none",
        "d": m.d,
        "encoder": f"{m.encoder}{'-' if m.encoder[-1:].isdigit() else ''}{m.layers}",  # lstm2, window3-2
        "squash": "yes" if m.squash else "no",
        "epochs": t.epochs if trained is None or trained >= t.epochs else f"{trained:g} of {t.epochs}",
        "calibration": calibration,
        "oov": "unk",
        "eos": "yes",
        "state": "carried",
        "seed": t.seed,
        "version": __version__,
    }
    if fitted:
        parts["fitted"] = fitted
    if d.max_words:
        parts["max_words"] = d.max_words
    if others := _others(recipe):
        parts["others"] = ",".join(others)
    return {key: str(value) for key, value in parts.items()}


def _others(recipe: Recipe) -> list[str]:
    """Settings that change the numbers, have no part in a signature, and are not the defaults."""
    plain = Recipe()
    pairs = [(getattr(recipe, section), getattr(plain, section), OTHERS[section]) for section in OTHERS]
    return [
        f"{n}={getattr(mine, n)}"
        for mine, default, names in pairs
        for n in names
        if getattr(mine, n) != getattr(default, n)
    ]


def parse_signature(text: str) -> dict[str, str]:
    """The parts of a signature by name: for results of older versions, which store no recipe."""
    return dict(part.split(":", 1) for part in text.split("|") if ":" in part)

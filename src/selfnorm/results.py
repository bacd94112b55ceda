"""Measurement: the numbers of one model on one text, with the signature that says what they are. No torch here."""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from dataclasses import MISSING, asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from selfnorm import __version__
from selfnorm.errors import UserError
from selfnorm.files import read_json, read_text, write_json
from selfnorm.recipe import Recipe

COMPLETION = "Sentence completion"  # the kind_of_result of a completion's JSON
OTHERS = {
    "data": ("min_count",),
    "model": ("dropout", "init", "tied"),
    "training": ("batch", "steps", "learning_rate", "decay", "decay_after", "clip"),
}
IN_HISTORY = ("epoch", "perplexity", "sigma_z", "seconds")  # of each line, beside others
IN_SIGNATURE = ("data", "split", "criterion", "d")
NUMBERS = ("mu_z", "sigma_z", "perplexity", "u_perplexity", "correlation", "words", "seconds", "seed")
CALIBRATIONS = ("none", "shift", "affine", "mlp")
TIMES, COST = "times", "cost"  # the steps that time scoring and training, and the kind_of_result of their JSON


@dataclass(frozen=True)
class Measurement:
    """mu_z, sigma_z, perplexity and u_perplexity of one model on one text."""

    signature: str
    mu_z: float
    sigma_z: float
    perplexity: float
    u_perplexity: float
    correlation: float  # of entropy and log Z
    words: int
    seconds: float
    seed: int
    command: str = ""
    date: str = ""
    machine: str = ""
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)  # 95 %, block bootstrap
    blocks: list[list[float]] = field(default_factory=list)  # sums over consecutive words, for paired differences
    histogram: dict[str, Any] = field(default_factory=dict)  # of log Z
    entropy_histogram: dict[str, Any] = field(default_factory=dict)  # entropy x log Z
    theory: dict[str, Any] = field(default_factory=dict)  # Theorems 1 and 2, where the truth is known
    notes: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))


def read_measurement(path: Path) -> Measurement:
    table = read_json(path)
    names = {f.name for f in fields(Measurement)}
    missing = {f.name for f in fields(Measurement) if f.default is MISSING and f.default_factory is MISSING} - set(
        table
    )
    if missing:
        raise UserError(
            f"{path} is not a measurement: {', '.join(sorted(missing))} missing. Make one with: selfnorm measure RUN"
        )
    wrong = [name for name in NUMBERS if not _number(table[name])]
    wrong += [f"signature {name}" for name in IN_SIGNATURE if name not in parse_signature(str(table["signature"]))]
    if wrong:
        raise UserError(
            f"{path} is not a whole measurement: {wrong[0]} is wrong. Make it again with: selfnorm measure RUN"
        )
    return Measurement(**{name: value for name, value in table.items() if name in names})


def read_history(path: Path) -> list[dict[str, Any]]:
    """The lines training wrote, one per validation; none if there is no such file yet."""
    try:
        lines = [json.loads(line) for line in read_text(path).split("\n") if line] if path.exists() else []
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path} has a line that is not JSON ({error.msg}). Mend it, or remove the run to train it again."
        ) from None
    for number, line in enumerate(lines, 1):
        if not isinstance(line, dict) or not all(_number(line.get(key)) for key in IN_HISTORY):
            raise UserError(
                f"{path} line {number} is not one that training wrote: numbers {', '.join(IN_HISTORY)} were expected. "
                "Mend it, or remove the run to train it again."
            )
    return lines


def text_of(folder: Path) -> str:
    """The fingerprint of the text a run was trained on; nothing if it does not say."""
    path = folder / "env.json"
    table = read_json(path) if path.exists() else {}
    return str(table.get("text", "")) if isinstance(table, dict) else ""


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_step(step: str) -> tuple[str, str]:
    """What follows a training, taken apart: test.mlp is ("test", "mlp"). Anything else than a known step is refused."""
    what, _, kind = step.partition(".")
    known = what in ("train", "valid", "test", "complete") and kind in ("", *CALIBRATIONS[1:])
    if step not in (TIMES, COST) and not (known and step == what + (f".{kind}" if kind else "")):
        raise UserError(
            f"step {step!r}: expected a split and perhaps a calibration, such as valid, test or test.mlp; or complete, "
            "times or cost."
        )
    return what, kind


def signature(
    recipe: Recipe, split: str, calibration: str = "none", trained: float | None = None, fitted: str = ""
) -> str:
    """data:ptb|split:test|criterion:nce_r|…: every choice a number depends on, in one line.

    A run whose training has not come to its end says how far it is: epochs:2 of 20. `fitted` is how a calibration was.
    """
    d, m, c, t = recipe.data, recipe.model, recipe.criterion, recipe.training
    parts = {
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
        "encoder": f"{m.encoder}{m.layers}",
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
    return "|".join(f"{key}:{value}" for key, value in parts.items())


def _others(recipe: Recipe) -> list[str]:
    """Settings that change the numbers, have no place of their own in a signature, and are not the defaults."""
    plain = Recipe()
    pairs = [(getattr(recipe, section), getattr(plain, section), OTHERS[section]) for section in OTHERS]
    return [
        f"{n}={getattr(mine, n)}"
        for mine, default, names in pairs
        for n in names
        if getattr(mine, n) != getattr(default, n)
    ]


def parse_signature(text: str) -> dict[str, str]:
    """The parts of a signature by name."""
    return dict(part.split(":", 1) for part in text.split("|") if ":" in part)


def command_line() -> str:
    """How this program was called, without the folder it is installed in."""
    name = Path(sys.argv[0]).name
    return " ".join(["selfnorm" if name in ("__main__.py", "selfnorm") else name, *sys.argv[1:]])


def today() -> str:
    return datetime.date.today().isoformat()


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}"


def environment() -> dict[str, Any]:
    """Versions and machine, for env.json."""
    packages = ("torch", "numpy", "safetensors", "cyclopts", "rich")
    found = {name: _version(name) for name in packages}
    return {
        "selfnorm": __version__,
        "python": platform.python_version(),
        "machine": machine(),
        "date": today(),
        **found,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"

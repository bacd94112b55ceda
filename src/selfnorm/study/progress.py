"""How far each run of a study is, read from its folder alone, and how long the rest may take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from selfnorm.names import NAMES
from selfnorm.recipe import Recipe
from selfnorm.results import read_history
from selfnorm.study.plan import Planned

WORDS = {"ptb": 929_589, "wikitext-2": 2_088_628, "sotu": 2_090_948, "mscc": 51_046_688, "synthetic": 200_000}
VOCAB = {"ptb": 10_000, "wikitext-2": 33_278, "sotu": 15_012, "mscc": 51_392, "synthetic": 201}
"""Only for time estimates of runs that have not started."""


@dataclass(frozen=True)
class Progress:
    state: str  # done, measuring, part, new
    epochs: float
    perplexity: float | None = None
    sigma_z: float | None = None
    seconds: float = 0.0


def progress_of(run: Planned, root: Path) -> Progress:
    folder = root / run.name
    history = read_history(folder / "history.jsonl")
    measured = all(_written(folder / f"{step}.json") for step in run.then)
    if not history:
        return Progress("new", 0)
    last = history[-1]
    epochs = float(last["epoch"])
    trained = epochs >= run.recipe.training.epochs and (folder / "model.safetensors").exists()
    state = "done" if measured and trained else "measuring" if trained else "part"
    return Progress(state, epochs, float(last["perplexity"]), float(last["sigma_z"]), float(last["seconds"]))


def _written(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def work(recipe: Recipe) -> float:
    """Multiplications of a whole training, roughly: the recurrent layers and what the criterion multiplies."""
    d, name = recipe.model.d, recipe.data.name
    words, V = recipe.data.max_words or WORDS.get(name, 1_000_000), VOCAB.get(name, 20_000)
    normalized = NAMES[recipe.criterion.name].normalizes if recipe.criterion.name in NAMES else 1.0
    per_word = 3 * (8 * recipe.model.layers * d * d + d * recipe.criterion.k + normalized * d * V) + 60_000
    return float(words * recipe.training.epochs * per_word)


def seconds_left(planned: list[Planned], root: Path, jobs: int) -> float | None:
    """From the speed of what has been trained so far; None before anything has."""
    rows = [(run, progress_of(run, root)) for run in planned]
    done = sum(work(run.recipe) * p.epochs / run.recipe.training.epochs for run, p in rows)
    spent = sum(p.seconds for _, p in rows)
    left = sum(work(run.recipe) * max(0.0, 1 - p.epochs / run.recipe.training.epochs) for run, p in rows)
    return left * spent / done / jobs if done else None

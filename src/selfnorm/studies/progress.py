"""How far each run of a study is, read from its folder alone, and how long the rest may take."""

from __future__ import annotations

from dataclasses import dataclass
from filecmp import cmp
from pathlib import Path

from selfnorm._util.errors import UserError
from selfnorm.config.recipe import Recipe
from selfnorm.config.toml import read_recipe
from selfnorm.data.sources.find import find_source
from selfnorm.registry.criteria import CRITERIA
from selfnorm.registry.datasets import DATASETS
from selfnorm.runs.history import best_line, read_history, text_of
from selfnorm.studies.plan import Planned

OVERHEAD = 60_000  # only for time estimates: what a word costs besides multiplications


@dataclass(frozen=True)
class Progress:
    state: str  # done, measuring, part, new
    epochs: float
    perplexity: float | None = None  # of the weights that are kept: the best so far
    sigma_z: float | None = None
    seconds: float = 0.0


def progress_of(run: Planned, root: Path) -> Progress:
    folder = root / run.name
    history = read_history(folder / "history.jsonl")
    measured = all(_written(folder / f"{step}.json") for step in run.then)
    if not history:  # begun, if there is a checkpoint: the first validation is still to come
        return Progress("part" if (folder / "checkpoint.safetensors").exists() else "new", 0)
    last, kept = history[-1], best_line(history) or history[-1]
    epochs = float(last["epoch"])
    trained = epochs >= run.recipe.training.epochs and (folder / "model.safetensors").exists()
    state = "done" if measured and trained else "measuring" if trained else "part"
    return Progress(state, epochs, float(kept["perplexity"]), float(kept["sigma_z"]), float(last["seconds"]))


def refuse_wrong_texts(planned: list[Planned], root: Path) -> None:
    """A run's name has its file's name, not its text: what was trained on another of that name must not pass for this one.

    A new run must have its text; a trained one may have lost it.
    """
    texts: dict[Path, str] = {}  # each read once, however many runs it has
    for run in planned:
        data, stored = run.recipe.data, root / run.name / "recipe.toml"
        wanted = data.path
        if data.name in DATASETS or not (data.file or data.folder):
            continue
        if not stored.exists() and not wanted.exists():
            raise UserError(f"The text {str(wanted)!r} of {run.name} does not exist, seen from {Path.cwd()}.")
        known = text_of(stored.parent)
        if stored.exists() and not known and _differ(read_recipe(stored).data.path, wanted):  # of an older version
            raise UserError(f"{stored.parent} was trained on another text than {wanted}. Choose another --to.")
        if known and wanted.exists() and wanted not in texts:
            texts[wanted] = find_source(run.recipe.data).fingerprint
        if known and texts.get(wanted, known) != known:
            raise UserError(
                f"{stored.parent} was trained on another text than {wanted} is now. Choose another --to, or give the old text back."
            )


def _differ(one: Path, two: Path) -> bool:
    return one.is_file() and two.is_file() and not cmp(one, two, shallow=False)


def _written(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def work(run: Planned) -> float:
    """Multiplications of a whole training, roughly: the recurrent layers and what the criterion multiplies."""
    recipe, (words, encoder, exact) = run.recipe, _sizes(run.recipe)
    normalized = CRITERIA[recipe.criterion.name].normalizes if recipe.criterion.name in CRITERIA else 1.0
    per_word = 3 * (encoder + recipe.model.d * recipe.criterion.k + normalized * exact) + OVERHEAD
    return float(words * recipe.training.epochs * per_word)


def work_after(run: Planned, root: Path) -> float:
    """The same for measuring and calibrating what has not been measured yet."""
    missing = [step for step in run.then if not _written(root / run.name / f"{step}.json")]
    words, encoder, exact = _sizes(run.recipe)
    network = 4 * 3 * (384 * run.recipe.model.d + 128 * 128)
    measured = len(missing) * words / 10 * (encoder + exact + OVERHEAD)
    fitted = (
        sum(step.endswith(".mlp") for step in missing) * min(words, 1_000_000) * (encoder + exact + network + OVERHEAD)
    )
    return float(measured + fitted)


def _sizes(recipe: Recipe) -> tuple[int, int, int]:
    """Words of the training text; multiplications a word of the recurrent layers, and of the exact log Z."""
    d, name = recipe.model.d, recipe.data.name
    known = DATASETS.get(name)
    words, V = (known.words, known.V) if known else (1_000_000, 20_000)
    return recipe.data.max_words or words, 8 * recipe.model.layers * d * d, d * V


def seconds_left(planned: list[Planned], root: Path, jobs: int) -> float | None:
    """From the speed of what has been trained so far; None before anything has."""
    rows = [(run, progress_of(run, root)) for run in planned]
    done = sum(work(run) * p.epochs / run.recipe.training.epochs for run, p in rows)
    spent = sum(p.seconds for _, p in rows)
    left = sum(work(run) * max(0.0, 1 - p.epochs / run.recipe.training.epochs) for run, p in rows)
    left += sum(work_after(run, root) for run, _ in rows)
    at_once = max(1, min(jobs, sum(p.state != "done" for _, p in rows)))
    return left * spent / done / at_once if done else None

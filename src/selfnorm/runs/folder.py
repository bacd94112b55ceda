"""A run folder: made, opened, told from another, and watched for weights that are replaced meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from selfnorm.errors import UserError
from selfnorm.files import LOCK, read_json, write_json
from selfnorm.recipe import Recipe, read_recipe, write_recipe
from selfnorm.results import CALIBRATIONS, environment, read_history, text_of
from selfnorm.text import Vocab, read_vocab

MEASURED = ("train", "valid", "test", "complete")  # what is measured and stored, for each calibration


@dataclass(frozen=True)
class Run:
    """A run folder with its recipe and vocabulary."""

    folder: Path
    recipe: Recipe
    vocab: Vocab

    def file(self, name: str) -> Path:
        return self.folder / name

    @property
    def calibration(self) -> str:
        path = self.file("calibration.json")
        table = read_json(path) if path.exists() else {"kind": "none"}
        kind = table.get("kind") if isinstance(table, dict) else None
        if kind not in CALIBRATIONS:
            raise UserError(f"{path} does not say which calibration is in use. Remove it and calibrate again.")
        return str(kind)


def create(folder: Path, recipe: Recipe, vocab: Vocab, fingerprint: str = "") -> Run:
    """A new run folder, or the same one again if its recipe and its text agree."""
    path = folder / "recipe.toml"
    if path.exists():
        _agree(read_recipe(path), recipe, folder)
    if (folder / "vocab.txt").exists() and read_vocab(folder / "vocab.txt").words != vocab.words:
        raise UserError(f"The text of {folder} has changed: its vocabulary is another one now. Choose another folder.")
    if text_of(folder) not in ("", fingerprint):
        raise UserError(f"The text of {folder} has changed since it was trained. Choose another folder.")
    write_recipe(path, recipe)
    if not (folder / "vocab.txt").exists():
        vocab.write(folder / "vocab.txt")
    write_json(folder / "env.json", {**environment(), "text": fingerprint})
    return Run(folder, recipe, vocab)


def open_run(folder: Path | str) -> Run:
    folder = Path(folder)
    if not (folder / "recipe.toml").is_file():
        raise UserError(
            f"{folder} is not a run folder (no recipe.toml). Make one with: selfnorm train RECIPE --to {folder}"
        )
    return Run(folder, read_recipe(folder / "recipe.toml"), read_vocab(folder / "vocab.txt"))


def _agree(old: Recipe, new: Recipe, folder: Path) -> None:
    """A run may be made longer, be saved at other times, or find its text elsewhere; anything else would mix two runs."""
    if _fixed(old) != _fixed(new):
        raise UserError(
            f"{folder} already holds a run with another recipe. Choose another folder, or remove this one to start over."
        )
    trained = trained_epochs(folder)
    if new.training.epochs < trained:
        raise UserError(
            f"{folder} has been trained for {trained:g} epochs; training.epochs = {new.training.epochs} is fewer. Choose another folder."
        )


def _fixed(recipe: Recipe) -> Recipe:
    free: dict[str, Any] = {"epochs": 0, "checkpoint_minutes": 0.0, "threads": 0, "validate_minutes": 0.0}
    data = replace(recipe.data, folder="", file=Path(recipe.data.file).name)
    return replace(recipe, data=data, training=replace(recipe.training, **free))


def trained_epochs(folder: Path) -> float:
    """How many epochs the run's history has; a part of one counts as a part."""
    history = read_history(folder / "history.jsonl")
    return float(history[-1]["epoch"]) if history else 0.0


def stamp(run: Run, calibration: str = "none") -> tuple[tuple[int, int], ...]:
    """Changes whenever the best weights, or the calibration used with them, are replaced; take it before loading them."""
    paths = [run.file("best.safetensors"), run.file(f"calibration.{calibration}.safetensors")]
    found = [path.stat() for path in paths if path.exists()]
    return tuple((one.st_mtime_ns, one.st_size) for one in found)


def refuse_replaced(run: Run, before: tuple[tuple[int, int], ...], calibration: str = "none") -> None:
    """What was found out about weights that a training or a calibration has replaced meanwhile must not be kept."""
    if stamp(run, calibration) != before:
        raise UserError(f"The weights of {run.folder} were replaced meanwhile; nothing was kept. Do it again.")


def derived_names() -> list[str]:
    """The exact names of the files that measuring and calibrating write into a run folder."""
    kinds = CALIBRATIONS[1:]
    measured = [f"{what}{kind}.json" for what in MEASURED for kind in ("", *(f".{kind}" for kind in kinds))]
    return [*measured, "calibration.json", *(f"calibration.{kind}.safetensors" for kind in kinds)]


def forget_measured(run: Run) -> list[str]:
    """Remove measurements and calibrations of weights that are about to be replaced; gives their names.

    Only files of exactly the names that we write: what else a user keeps in the folder is never touched.
    """
    gone = []
    for path in map(run.file, derived_names()):
        if path.exists():
            path.unlink()
            gone.append(path.name)
    return gone


def refuse_foreign(folder: Path) -> None:
    """Training writes into a new or empty folder, or into a run; never into a folder that holds something else."""
    if not folder.exists() or (folder / "recipe.toml").exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file. Name a folder for the run.")
    others = sorted(p.name for p in folder.iterdir() if p.name != LOCK and not p.name.endswith(".part"))
    if others:
        raise UserError(
            f"{folder} is not empty and not a run: it holds {', '.join(others[:3])}{' …' if len(others) > 3 else ''}. "
            "Name a new folder, such as runs/nce."
        )

"""Run: a run folder with its recipe, vocabulary and tokenizer; how it is made and opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from selfnorm._util.change import LOCK as CHANGE_LOCK
from selfnorm._util.change import Change, change, checked, settled
from selfnorm._util.errors import UserError
from selfnorm._util.files import LOCK, json_text, read_json
from selfnorm._util.machine import environment
from selfnorm._util.manifest import NAME as MANIFEST
from selfnorm._util.manifest import note_once, read_manifest, trusted
from selfnorm._util.manifest import trust as trust_folder
from selfnorm._util.schema import check
from selfnorm._util.schema import table as table_of
from selfnorm.config.limits import check_device
from selfnorm.config.recipe import Recipe
from selfnorm.config.schemas import CALIBRATION, TOKENIZER
from selfnorm.config.toml import read_recipe, recipe_text
from selfnorm.data.tokenizers import Tokenize, of_an_older_run, tokenizer
from selfnorm.data.vocab import Vocab, read_vocab
from selfnorm.registry.calibrations import check_kind, kinds
from selfnorm.registry.steps import STEPS
from selfnorm.runs.history import text_of, trained_epochs

if TYPE_CHECKING:
    from selfnorm.evaluation.measurement import Measurement
    from selfnorm.scoring.scorer import Scorer


FACTS = "calibration.json"
BASE = (
    "recipe.toml",
    "vocab.txt",
    "tokenizer.json",
    "env.json",
    "history.jsonl",
    "model.safetensors",
    "best.safetensors",
)
OWN = (LOCK, CHANGE_LOCK, MANIFEST)


@dataclass(frozen=True)
class Run:
    """A trained model on disk. `selfnorm.train` makes one; `selfnorm.open_run(folder)` opens one."""

    folder: Path
    recipe: Recipe
    vocab: Vocab
    tokenizer: str = "whitespace"  # its name: words or whitespace
    device: str = ""  # where it computes: cpu, cuda, cuda:1, mps, auto; empty is as it was trained, or auto

    def __repr__(self) -> str:
        c, d = self.recipe.criterion.name, self.recipe.model.d
        return f"Run({str(self.folder)!r}, criterion={c!r}, d={d}, V={len(self.vocab)}, calibration={self.in_use!r})"

    def file(self, name: str) -> Path:
        return self.folder / name

    def checked(self, name: str) -> Path:
        """The path of a file that is going to be read, compared with the manifest: a damaged one is an error."""
        return checked(self.folder, name)

    @property
    def tokenize(self) -> Tokenize:
        return tokenizer(self.tokenizer)

    @property
    def in_use(self) -> str:
        """The calibration in use: what scoring and measuring take unless told otherwise."""
        path = self.checked(FACTS)
        return str(read_calibrations(path)["kind"]) if path.exists() else "none"

    def kind(self, calibration: str | None) -> str:
        """The calibration asked for, or the one in use. The one place where that is decided."""
        return self.in_use if calibration is None else check_kind(calibration)

    def calibrate(self, kind: str = "mlp", *, use: bool = True, **budget: Any) -> dict[str, Any]:
        """Fit a calibration, store it in the folder and put it in use.

        `budget`: contexts, passes, minutes, hidden and frequent (mlp), rank, top and preview (screen, int8).

        Returns what was measured on the validation text before and after, and what it cost.
        """
        from selfnorm.calibration.base import make_budget
        from selfnorm.runs.calibrate import calibrate_run
        from selfnorm.runs.opening import text_of_run

        return calibrate_run(self, text_of_run(self), kind, make_budget(budget), use)

    def measure(self, split: str = "test", calibration: str | None = None) -> Measurement:
        """mu_z, sigma_z, perplexity, u_perplexity and more on a split, each with a 95 % interval."""
        from selfnorm.runs.evaluate import measure_split
        from selfnorm.runs.opening import text_of_run

        return measure_split(self, text_of_run(self), split, calibration)

    def tokens(self, split: str = "test", calibration: str | None = None) -> Mapping[str, np.ndarray]:
        """Arrays over the words of a split, in its order: pandas.DataFrame(run.tokens("test")).

        word      the word itself
        m         its score, with the calibration subtracted
        log_z     exact log Z of these scores: what is left after the calibration
        estimate  what the calibration subtracted: its estimate of log Z of the raw scores; 0 without one
        entropy   of the predicted distribution, nats
        """
        from selfnorm.runs.evaluate import tokens_of_split
        from selfnorm.runs.opening import text_of_run

        return tokens_of_split(self, text_of_run(self), split, calibration)

    def scorer(self, normalized: bool = False, calibration: str | None = None, unk_penalty: float = 0.0) -> Scorer:
        """A Scorer; without log Z only where that is right (raises NotSelfNormalized)."""
        from selfnorm.runs.opening import scorer_of

        return scorer_of(self, normalized, calibration, unk_penalty)


def create(folder: Path, recipe: Recipe, vocab: Vocab, fingerprint: str = "", tokens: str = "whitespace") -> Run:
    """A new run folder, or the same one again if its recipe and its text agree."""
    path = checked(folder, "recipe.toml")
    if path.exists():
        _agree(read_recipe(path), recipe, folder)
    if path.exists() and (before := stored_tokens(folder, recipe)) != tokens:
        raise UserError(
            f"{folder} holds a run whose text is tokenized as {before}, not {tokens}. Leave data.tokens out, or choose another folder."
        )
    if checked(folder, "vocab.txt").exists() and read_vocab(folder / "vocab.txt").words != vocab.words:
        raise UserError(f"The text of {folder} has changed: its vocabulary is another one now. Choose another folder.")
    if text_of(folder) not in ("", fingerprint):
        raise UserError(f"The text of {folder} has changed since it was trained. Choose another folder.")
    texts = {
        "recipe.toml": recipe_text(recipe),
        "vocab.txt": vocab.text(),
        "tokenizer.json": json_text({"tokens": tokens}),
        "env.json": json_text({**environment(), "text": fingerprint}),
    }
    run = Run(folder, recipe, vocab, tokens)
    with changing(run) as new:
        for name, text in texts.items():
            if not run.file(name).exists() or run.file(name).read_text(encoding="utf-8") != text:
                new.text(name, text)
    return run


def open_run(folder: Path | str, device: str = "", trust: bool = False) -> Run:
    """Open a run folder that training made; `device` is where it computes (cpu, cuda, cuda:1, mps, auto).

    Every file is compared with the manifest when it is read; a damaged, edited or foreign one is an error that names it.
    `trust` takes the files as they are, for the rest of the process.
    """
    folder = Path(folder)
    check_device(device or "auto")
    if trust:
        trust_folder(folder)
    if not (folder / "recipe.toml").is_file():
        raise UserError(f"{folder} is not a run folder (no recipe.toml). Make one with: selfnorm train --to {folder}")
    if read_manifest(folder) is None and not trusted(folder):
        note_once(
            folder,
            f"{folder} was made by an earlier version and has no {MANIFEST}, so damage to it cannot be noticed. "
            "Training or calibrating it writes one.",
        )
    recipe = read_recipe(checked(folder, "recipe.toml"))
    return Run(folder, recipe, read_vocab(checked(folder, "vocab.txt")), stored_tokens(folder, recipe), device)


def stored_tokens(folder: Path, recipe: Recipe) -> str:
    """The tokenizer's name as the folder has it; runs of older versions do not say."""
    path = checked(folder, "tokenizer.json")
    if not path.exists():
        return recipe.data.tokens or of_an_older_run(recipe.data.name)
    table = read_json(path)
    check(table, TOKENIZER, path, 'Expected {"tokens": "words"} or whitespace.')
    tokenizer(table["tokens"])
    return str(table["tokens"])


def _agree(old: Recipe, new: Recipe, folder: Path) -> None:
    """A run may be made longer, be saved at other times, or find its text elsewhere; anything else would mix two runs."""
    if _fixed(old) != _fixed(new):
        raise UserError(
            f"{folder} already holds a run with another recipe: {_difference(old, new)}. Choose another folder, or remove this one "
            "to start over."
        )
    trained = trained_epochs(folder)
    if new.training.epochs < trained:
        raise UserError(
            f"{folder} has been trained for {trained:g} epochs; training.epochs = {new.training.epochs} is fewer. Choose another folder."
        )


def _difference(old: Recipe, new: Recipe) -> str:
    """The first setting in which two recipes differ."""
    one, two = asdict(_fixed(old)), asdict(_fixed(new))
    pairs = ((f"{section}.{key}", value, two[section][key]) for section in one for key, value in one[section].items())
    return next((f"{name} is {before!r} there and {now!r} here" for name, before, now in pairs if before != now), "")


def _fixed(recipe: Recipe) -> Recipe:
    free: dict[str, Any] = {
        "epochs": 0,
        "checkpoint_minutes": 0.0,
        "threads": 0,
        "validate_epochs": 1,
        "validate_minutes": 0.0,
        "device": "auto",
    }
    data = replace(recipe.data, folder="", file=Path(recipe.data.file).name, tokens="")
    return replace(recipe, data=data, training=replace(recipe.training, **free))


Stamp = tuple[tuple[int, int], ...]


def stamp(run: Run, calibration: str = "none") -> Stamp:
    """Changes whenever the best weights, or the calibration used with them, are replaced; take it before loading them."""
    paths = [run.file("best.safetensors"), run.file(f"calibration.{calibration}.safetensors")]
    stats = [path.stat() for path in paths if path.exists()]
    return tuple((one.st_mtime_ns, one.st_size) for one in stats)


def refuse_replaced(run: Run, before: Stamp, calibration: str = "none") -> None:
    """Results of weights that a training or a calibration has replaced meanwhile must not be kept."""
    if stamp(run, calibration) != before:
        raise UserError(f"The weights of {run.folder} were replaced meanwhile; nothing was kept. Run it again.")


@contextmanager
def changing(run: Run) -> Iterator[Change]:
    """A change to the run's files: all of it happens, or nothing (_util/change.py)."""
    with change(run.folder, lambda: (*BASE, *derived_names())) as new:
        yield new


def read_calibrations(path: Path) -> dict[str, Any]:
    """calibration.json: the kind in use, and what each stored kind measured."""
    table = read_json(path)
    kind = table.get("kind") if isinstance(table, dict) else None
    if not isinstance(kind, str) or kind not in kinds():
        raise UserError(
            f"{path}: the calibration in use is {str(kind)[:60]!r}, but one of {', '.join(kinds())} was expected. "
            "Remove the file and calibrate again."
        )
    check(table, table_of({}, dict.fromkeys(kinds()[1:], CALIBRATION)), path, "Calibrate again.")
    return dict(table)


def derived_names() -> list[str]:
    """The exact names of the files that measuring and calibrating write into a run folder."""
    measured = [what for what, step in STEPS.items() if step.calibrated]
    results = [f"{what}{kind}.json" for what in measured for kind in ("", *(f".{kind}" for kind in kinds()[1:]))]
    return [*results, FACTS, *(f"calibration.{kind}.safetensors" for kind in kinds()[1:])]


def is_own_file(folder: Path, path: Path) -> bool:
    """Is this a file that training, measuring or calibrating writes into the run's folder, whether it is there or not?"""
    names = (*BASE, *OWN, *derived_names(), *(f"{what}.json" for what in STEPS))
    return path.parent == folder.resolve() and (path.name in names or path.suffix == ".safetensors")


def refuse_foreign(folder: Path) -> None:
    """Training writes into a new or empty folder, or into a run; never into a folder that holds something else."""
    if folder.is_dir():
        settled(folder)  # a training that was killed at its very start
    if not folder.exists() or (folder / "recipe.toml").exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file. Name a folder for the run.")
    others = sorted(p.name for p in folder.iterdir() if p.name not in OWN and not p.name.endswith((".part", ".new")))
    if others:
        raise UserError(
            f"{folder} is not empty and not a run: it holds {', '.join(others[:3])}{' …' if len(others) > 3 else ''}. "
            "Name a new folder, such as runs/nce."
        )

"""The run folder: what is saved and how it is found again. Everything in it is readable or safetensors.

recipe.toml  vocab.txt  env.json  history.jsonl      readable in an editor
model.safetensors  best.safetensors                  the last and the best weights, ready to score: m estimates log p
checkpoint.safetensors                               weights, state, chance and place, to resume exactly
calibration.json  calibration.shift.safetensors …    what `calibrate` found, and which kind is in use
valid.json  test.json  test.shift.json …             measurements, one file per split and calibration
complete.json  complete.mlp.json …                   sentence completion, one file per calibration
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from selfnorm.criteria import entry
from selfnorm.errors import UserError
from selfnorm.files import atomic, read_json, write_json
from selfnorm.model import LanguageModel, build
from selfnorm.normalizers import Mlp
from selfnorm.recipe import Recipe, read_recipe, write_recipe
from selfnorm.results import CALIBRATIONS, environment, read_history
from selfnorm.text import Vocab, read_vocab


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


def create(folder: Path, recipe: Recipe, vocab: Vocab) -> Run:
    """A new run folder, or the same one again if its recipe agrees."""
    path = folder / "recipe.toml"
    if path.exists():
        _agree(read_recipe(path), recipe, folder)
    if (folder / "vocab.txt").exists() and read_vocab(folder / "vocab.txt").words != vocab.words:
        raise UserError(f"The text of {folder} has changed: its vocabulary is another one now. Choose another folder.")
    write_recipe(path, recipe)
    if not (folder / "vocab.txt").exists():
        vocab.write(folder / "vocab.txt")
    write_json(folder / "env.json", environment())
    return Run(folder, recipe, vocab)


def open_run(folder: Path) -> Run:
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


# Weights


def save_weights(path: Path, model: LanguageModel) -> None:
    with atomic(path) as temporary:
        save_file(tensors_of(model), temporary, metadata={"link": model.output.link})


def tensors_of(model: LanguageModel) -> dict[str, Tensor]:
    """The state by name; a tied table is stored once."""
    tied = getattr(model.output, "weight", None) is model.encoder.table
    return {name: t.contiguous() for name, t in model.state_dict().items() if not (tied and name == "output.weight")}


def load_model(run: Run, which: str = "best", calibration: str | None = None) -> LanguageModel:
    """The run's model, with the calibration stored in it unless another (or "none") is asked for."""
    path = run.file("best.safetensors" if which == "best" else "model.safetensors")
    if not path.exists():
        raise UserError(f"{run.folder} has no {path.name} yet. Finish at least one epoch with: selfnorm train")
    tensors, metadata = read_tensors(path)
    model = fresh_model(run.recipe, len(run.vocab))
    if not all(bool(torch.isfinite(t).all()) for t in tensors.values()):
        raise UserError(
            f"{path} holds weights that are not finite numbers: the file is damaged. Train or copy it again."
        )
    fill(model, tensors)
    if "link" in metadata:
        model.output.link = metadata["link"]  # a criterion may have added one
    model.requires_grad_(False)
    wanted = run.calibration if calibration is None else calibration
    return model if wanted == "none" else calibrated(model, run, wanted)


def fresh_model(recipe: Recipe, V: int, rng: torch.Generator | None = None) -> LanguageModel:
    """A model as the recipe wants it: the criterion may need an output layer or normalizer of its own."""
    line = entry(recipe.criterion.name)
    return build(recipe.model, V, rng or torch.Generator().manual_seed(0), line.output, line.normalizer)


def fill(model: LanguageModel, tensors: dict[str, Tensor]) -> None:
    own = model.state_dict()
    tied = getattr(model.output, "weight", None) is model.encoder.table
    for name, tensor in own.items():
        if tied and name == "output.weight":
            continue
        if name not in tensors or tensors[name].shape != tensor.shape:
            raise UserError(
                f"The weights do not fit the recipe: {name} should be {tuple(tensor.shape)}. Was recipe.toml edited?"
            )
        with torch.no_grad():
            tensor.copy_(tensors[name])


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as handle:
            return {name: handle.get_tensor(name) for name in handle.keys()}, handle.metadata() or {}  # noqa: SIM118
    except SafetensorError as error:
        raise UserError(f"{path} is not a whole safetensors file ({error}). Train or copy it again.") from None


def forget_measured(run: Run) -> None:
    """Remove measurements and calibrations of weights that are about to be replaced."""
    for pattern in ("valid*.json", "test*.json", "train*.json", "complete*.json", "calibration*"):
        for path in run.folder.glob(pattern):
            path.unlink()


# Calibration


def save_calibration(run: Run, kind: str, normalizer: nn.Module, facts: dict[str, Any], use: bool = True) -> None:
    """Store a calibration and, if wanted, make it the one in use; others stay beside it, measurements of the one it replaces go."""
    for what in ("valid", "test", "train", "complete"):
        run.file(f"{what}.{kind}.json").unlink(missing_ok=True)
    with atomic(run.file(f"calibration.{kind}.safetensors")) as temporary:
        save_file({name: t.contiguous() for name, t in normalizer.state_dict().items()}, temporary)
    stored = _stored(run)
    write_json(
        run.file("calibration.json"), {**stored, "kind": kind if use else stored.get("kind", "none"), kind: facts}
    )


def use_calibration(run: Run, kind: str) -> None:
    """Make a stored calibration (or none) the one in use."""
    write_json(run.file("calibration.json"), {**_stored(run), "kind": kind})


def _stored(run: Run) -> dict[str, Any]:
    """What calibration.json says; nothing if it is not there or not ours, since it is about to be written anew."""
    path = run.file("calibration.json")
    try:
        table = read_json(path) if path.exists() else {}
    except UserError:
        return {}
    return table if isinstance(table, dict) else {}


def fitted(run: Run, kind: str) -> str:
    """How a stored calibration was fitted, for signatures: 128x128,256 frequent,929588 contexts,4 passes."""
    facts = _stored(run).get(kind)
    if kind not in ("affine", "mlp") or not isinstance(facts, dict) or "contexts" not in facts:
        return ""
    contexts = f"{facts['contexts']} contexts"
    if kind == "affine":
        return contexts
    hidden = "x".join(str(size) for size in facts.get("hidden", ()))
    return f"{hidden},{facts.get('frequent', 0)} frequent,{contexts},{facts.get('passes', 0):g} passes"


def has_calibration(run: Run, kind: str) -> bool:
    return kind == "none" or run.file(f"calibration.{kind}.safetensors").exists()


def calibrated(model: LanguageModel, run: Run, kind: str) -> LanguageModel:
    """The model with a stored calibration: shift and affine are folded into the rows, mlp is subtracted."""
    if not has_calibration(run, kind):
        raise UserError(
            f"{run.folder} has no {kind} calibration. Make it with: selfnorm calibrate {run.folder} --with {kind}"
        )
    tensors, _ = read_tensors(run.file(f"calibration.{kind}.safetensors"))
    try:
        if kind in ("shift", "affine"):
            return model.with_output(model.output.minus(tensors["a"], tensors["b"]))
        biases = [name for name in tensors if name.startswith("network.") and name.endswith(".bias")]
        biases.sort(key=lambda name: int(name.split(".")[1]))
        hidden = [len(tensors[name]) for name in biases[:-1]]
        normalizer = Mlp(model.output.d, hidden, len(tensors.get("frequent.bias", ())))
        normalizer.load_state_dict(tensors)
        return model.with_output(model.output.with_normalizer(normalizer.requires_grad_(False)))
    except (KeyError, ValueError, RuntimeError):
        raise UserError(
            f"calibration.{kind}.safetensors of {run.folder} does not fit the model. Calibrate again."
        ) from None

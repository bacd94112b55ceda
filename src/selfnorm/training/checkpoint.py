"""Checkpoints: everything the next step depends on, in one file, so that it is whole or old."""

from __future__ import annotations

import hashlib
import json
import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selfnorm._util.devices import host_of
from selfnorm._util.errors import UserError
from selfnorm._util.files import atomic
from selfnorm._util.manifest import Damaged, trusted
from selfnorm._util.processes import ALONE, Processes
from selfnorm._util.tensors import bytes_of, read_metadata, read_tensors, write_tensors
from selfnorm.config.naming import run_name
from selfnorm.nn.encoders import State
from selfnorm.nn.model import LanguageModel
from selfnorm.runs.folder import Run, changing
from selfnorm.runs.history import read_history, trained_epochs
from selfnorm.runs.weights import fill, tensors_of
from selfnorm.training.loop import Place
from selfnorm.training.optimizer import Optimizer

log = logging.getLogger("selfnorm")
FILE = "checkpoint.safetensors"


@dataclass
class Progress:
    """Where a training is, what it has measured, and the seconds it has taken."""

    place: Place = field(default_factory=Place)
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0


def save_checkpoint(
    run: Run,
    model: LanguageModel,
    optimizer: Optimizer,
    rng: torch.Generator,
    progress: Progress,
    processes: Processes,
    state: State | None,
) -> None:
    """Write the checkpoint; `state` is the encoder's of all streams, whichever process has them."""
    place = progress.place
    tensors = {f"model.{name}": t for name, t in tensors_of(model).items()}
    tensors |= {f"optimizer.{name}": t for name, t in optimizer.tensors().items()}
    tensors["rng"] = rng.get_state()
    if host_of(rng) is not rng:
        tensors["rng.host"] = host_of(rng).get_state()
    for i, layer in enumerate(state or []):
        tensors |= {f"state.{i}.{j}": part.cpu().contiguous() for j, part in enumerate(layer)}
    numbers = {name: getattr(place, name) for name in ("epoch", "window", "fit", "penalty", "words")}
    about = {"place": numbers, "history": progress.history, "seconds": progress.seconds, "run": _identity(run)}
    about |= {"device": processes.device.type, "processes": processes.size}
    metadata = {name: json.dumps(value) for name, value in about.items()}
    metadata["sha256"] = _digest(tensors, metadata)
    with atomic(run.file(FILE), bytes_of(tensors)) as temporary:
        write_tensors(temporary, tensors, metadata)
    write_history(run, progress.history)


def write_history(run: Run, history: list[dict[str, Any]]) -> None:
    text, path = "".join(json.dumps(line) + "\n" for line in history), run.file("history.jsonl")
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        with changing(run) as new:
            new.text(path.name, text)


def load_checkpoint(
    run: Run,
    model: LanguageModel,
    optimizer: Optimizer,
    rng: torch.Generator,
    processes: Processes = ALONE,
    own: range | None = None,
) -> Progress:
    """Restore weights, optimizer and random generator, and say where training was; the very beginning if nothing was trained.

    Exact to the bit on the same device with as many processes. Elsewhere training goes on with the same weights and place, other
    random numbers and other last digits, which is said. Of the state only the `own` streams are taken.
    """
    if not run.file(FILE).exists():
        return _without(run)
    tensors, metadata = read_tensors(run.file(FILE))
    _refuse_damaged(run, tensors, metadata)
    try:
        return _restore(run, tensors, metadata, model, optimizer, rng, processes, own)
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError):
        raise UserError(
            f"{run.file(FILE)} is not a checkpoint of this run. Remove the run to train it again, or copy it again."
        ) from None


def refuse_fewer_epochs(folder: Path, epochs: int) -> None:
    """A training that has begun a later epoch than the last one asked for stays as it is."""
    place = _stored_place(folder / FILE)
    if place.epoch - (place.window == 0) > epochs:
        raise UserError(
            f"{folder} has been trained into epoch {place.epoch}; training.epochs = {epochs} is fewer. Choose another folder."
        )


def _stored_place(path: Path) -> Place:
    """Where a checkpoint is; the beginning where there is none. A damaged one is named when it is loaded."""
    with suppress(UserError, LookupError, TypeError, ValueError):
        if path.exists():
            return Place(**json.loads(read_metadata(path)["place"]))
    return Place()


def _restore(
    run: Run, tensors: dict[str, Tensor], metadata: dict[str, str], model: LanguageModel, optimizer: Optimizer,
    rng: torch.Generator, processes: Processes, own: range | None,
) -> Progress:  # fmt: skip
    fill(model, {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")})
    optimizer.restore({n.removeprefix("optimizer."): t for n, t in tensors.items() if n.startswith("optimizer.")})
    about = {name: json.loads(text) for name, text in metadata.items() if name != "sha256"}
    _restore_rng(rng, tensors, about, run, processes)
    streams = slice(None) if own is None else slice(own.start, own.stop)
    state = [tuple(part[:, streams].to(processes.device) for part in layer) for layer in _state(tensors)]
    history = about["history"]
    seconds = about.get("seconds", history[-1]["seconds"] if history else 0.0)  # older files have none
    return Progress(Place(**about["place"], state=state or None), history, float(seconds))


def _identity(run: Run) -> str:
    """The run's name, whatever number of epochs it is trained for."""
    return run_name(replace(run.recipe, training=replace(run.recipe.training, epochs=0)))


def _digest(tensors: dict[str, Tensor], metadata: dict[str, str]) -> str:
    """A checkpoint carries its own sha256: it is written far too often for the manifest."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        t = tensors[name].contiguous()
        total.update(f"{name} {t.dtype} {tuple(t.shape)}\n".encode())
        total.update(t.reshape(-1).view(torch.uint8).numpy().data)
    for name in sorted(set(metadata) - {"sha256"}):
        total.update(f"{name}={metadata[name]}\n".encode())
    return total.hexdigest()


def _refuse_damaged(run: Run, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Older versions wrote no sha256; a checkpoint of today has one that fits, and is of this run."""
    if "sha256" not in metadata and "run" not in metadata:
        return
    path = run.file(FILE)
    if metadata.get("sha256") != _digest(tensors, metadata):
        problem = "is damaged: it does not agree with its own sha256"
    elif metadata.get("run") != json.dumps(_identity(run)):
        problem = f"is of another run ({metadata.get('run')})"
    else:
        return
    if not trusted(run.folder):
        raise Damaged(f"{path} {problem}. Copy it again, or remove the run to train it again.")
    log.warning("%s %s. Trusted as it is.", path, problem)


def _restore_rng(
    rng: torch.Generator, tensors: dict[str, Tensor], about: dict[str, Any], run: Run, processes: Processes
) -> None:
    """The random generator as it was; a new one where the device is another: its states are no others'."""
    device, count = about.get("device", "cpu"), about.get("processes", 1)
    if processes.first and (device, count) != (processes.device.type, processes.size):
        log.warning(
            "%s was trained on %s by %s until here, now on %s by %s: it goes on from the same weights and place, but is not "
            "identical to a run that was not moved.",
            run.folder, device, _count(count), processes.device.type, _count(processes.size),
        )  # fmt: skip
    if device == processes.device.type:
        rng.set_state(tensors["rng"])
        if "rng.host" in tensors:
            host_of(rng).set_state(tensors["rng.host"])
    else:
        place = about["place"]
        seed = run.recipe.training.seed + 1_000_003 * place["epoch"] + place["window"]
        host_of(rng).manual_seed(seed)
        rng.manual_seed(seed)


def _count(processes: int) -> str:
    return "one process" if processes == 1 else f"{processes} processes"


def _state(tensors: dict[str, Tensor]) -> State:
    """The encoder's state from tensors named state.LAYER.PART, however many parts a layer has."""
    layers: dict[int, dict[int, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("state."):
            layer, part = map(int, name.removeprefix("state.").split("."))
            layers.setdefault(layer, {})[part] = tensor
    return [tuple(layers[i][j] for j in sorted(layers[i])) for i in sorted(layers)]


def _without(run: Run) -> Progress:
    """A finished run needs no checkpoint; one that was stopped cannot go on, and must not be trained over."""
    epochs, weights = run.recipe.training.epochs, [run.file(f"{name}.safetensors") for name in ("model", "best")]
    trained = trained_epochs(run.folder)
    if trained >= epochs and all(path.exists() for path in weights):
        return Progress(Place(epoch=epochs + 1), read_history(run.file("history.jsonl")))
    if trained:  # a history is only ever written after a checkpoint
        raise UserError(
            f"{run.folder} was trained for {trained:g} of {epochs} epochs but has no {FILE}, so training cannot go on. "
            "Choose another folder, or remove this one to start over."
        )
    return Progress()

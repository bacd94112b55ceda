"""What no run can use is refused here, before anything is read or written."""

from __future__ import annotations

import math
import re

from selfnorm._util.errors import UserError
from selfnorm.config.recipe import Recipe
from selfnorm.registry.datasets import DATASETS
from selfnorm.registry.encoders import ENCODERS


def check(recipe: Recipe) -> None:
    """Refuse values no run can use."""
    d, m, c, t = recipe.data, recipe.model, recipe.criterion, recipe.training
    _require(
        re.fullmatch(r"\w[\w.+-]*", d.name) is not None,
        f'data.name = "{d.name}": a name of letters, digits, dots and dashes was expected (it names folders)',
    )
    _require(
        0 <= d.min_count <= 10**15 and 0 <= d.max_words <= 10**15,
        "data: min_count and max_words must be at least 0 (0 means the rule of the text)",
    )
    ENCODERS.find(m.encoder)
    for name in ("name", "noise"):
        word = getattr(c, name)
        _require(re.fullmatch(r"\w+", word) is not None, f'criterion.{name} = "{word[:60]}": a name was expected')
    _require(
        d.tokens in ("", "words", "whitespace"),
        f'data.tokens = "{d.tokens}": choose words (lower case, punctuation apart) or whitespace (tokenized already)',
    )
    _require(
        1 <= m.heads <= 1000 and 1 <= m.memory <= 10**5,
        "model: heads and memory must be at least 1, and at most 1,000 and 100,000",
    )
    _require(
        m.encoder != "transformer" or m.d % (2 * m.heads) == 0,
        f"model.d = {m.d} must be a multiple of 2 x model.heads ({m.heads}): attention heads have even sizes",
    )
    _require(t.optimizer in ("", "sgd", "adamw"), f'training.optimizer = "{t.optimizer}": choose sgd or adamw')
    check_device(t.device, "training.device")
    _require(
        t.precision in ("float32", "bf16", "int16"),
        f'training.precision = "{t.precision}": choose float32, bf16 or int16',
    )
    _require(t.dense_rate > 0, f"training.dense_rate = {t.dense_rate}: it must be above 0")
    _require(
        1 <= m.d <= 10**5, f"model.d = {str(m.d)[:20]}: the number of units must be at least 1, and at most 100,000"
    )
    _require(1 <= m.layers <= 100, f"model.layers = {str(m.layers)[:20]}: at least 1 layer is needed, and at most 100")
    _require(0 <= m.dropout < 1, f"model.dropout = {m.dropout}: a share of units, at least 0 and below 1")
    _require(
        0 < m.init <= 1e6,
        f"model.init = {m.init}: weights start uniform in [-init, init], so it must be above 0, and at most a million",
    )
    _require(
        not d.file or d.name not in DATASETS,
        f"data.file = {d.file} is your own text, but data.name = {d.name} is a built-in one. Leave data.name out, or give another",
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
    for name in ("epochs", "batch", "steps", "threads", "validate_epochs"):
        _require(getattr(t, name) >= 1, f"training.{name} = {getattr(t, name)}: it must be at least 1")
    _require(
        max(t.epochs, t.batch, t.steps, t.validate_epochs) <= 10**6,
        "training: epochs, batch, steps and validate_epochs must be at most a million each",
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
    _require(0 <= t.decay_after <= 10**6, f"training.decay_after = {t.decay_after}: an epoch from 0 to a million")
    for name in ("checkpoint_minutes", "validate_minutes"):
        _require(0 <= getattr(t, name) <= 1e9, f"training.{name} = {getattr(t, name)}: it must be at least 0")
    _require(
        max(t.learning_rate, t.dense_rate, t.clip, c.alpha) <= 1e30,
        "training.learning_rate, training.dense_rate, training.clip and criterion.alpha must be at most 1e30",
    )
    _require(t.clip > 0, f"training.clip = {t.clip}: the largest allowed gradient norm must be above 0")


def check_device(name: str, setting: str = "device") -> None:
    """Refuse what cannot be the name of a device; whether it is here is asked when it is used."""
    _require(
        re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?|mps", name) is not None,
        f'{setting} = "{name}": choose auto, cpu, cuda, cuda:1 (the second GPU) or mps',
    )


def _require(true: bool, sentence: str) -> None:
    if not true:
        raise UserError(sentence + ".")

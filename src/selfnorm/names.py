"""The criteria by name: what the literature calls them and what they do to log Z. No torch, so plans and reports can ask."""

from __future__ import annotations

from dataclasses import dataclass, replace

from selfnorm.errors import UserError, nearest
from selfnorm.recipe import CriterionSettings


@dataclass(frozen=True)
class Name:
    """pins: does the loss change when a constant is added to every score of a context?

    yes         log Z is pulled to 0
    constant    log Z settles at an unknown constant, which `shift` removes
    no          log Z may be anything: scoring without it is wrong by an arbitrary amount per context
    normalized  log Z is 0 by construction
    """

    paper: str
    pins: str
    alpha: float = 0.0  # used where the recipe gives none
    gamma: float = 1.0
    penalty: str = "exact"
    subset: str = "contexts"
    alone: str = "yes"  # what the fit without its penalty does to log Z
    draws: bool = False  # noise words, k of them
    normalizes: float = 0.0  # the share of contexts whose log Z a training step computes, for time estimates


NAMES: dict[str, Name] = {
    "softmax": Name("SM-LM", "no", alone="no", normalizes=1.0),
    "devlin": Name("DEV-LM", "yes", alone="no", alpha=1.0, normalizes=1.0),
    "andreas": Name("AND-LM", "constant", alone="", alpha=1.0, gamma=0.1, normalizes=0.1),
    "nce": Name("NCE-LM", "yes", draws=True),
    "nce_r": Name("NCE-R-LM", "yes", alpha=10.0, gamma=0.1, subset="windows", normalizes=0.1, draws=True),
    "nce_s": Name("NCE, sampled penalty", "yes", alpha=0.1, penalty="sampled", draws=True),
    "nce_batch": Name("batch NCE", "yes"),
    "nce_learned": Name("NCE, learned normalizer", "yes", draws=True),
    "negative": Name("PMI-LM", "yes", draws=True),
    "linear_bound": Name("linear bound", "yes", draws=True),
    "snis": Name("self-normalized importance sampling", "yes", draws=True),
    "infrequent": Name(
        "infrequent normalization", "yes", alone="no", alpha=1.0, gamma=0.1, penalty="none", normalizes=0.1
    ),
    "z_loss": Name("z-loss", "yes", alone="no", alpha=1e-4, normalizes=1.0),
    "variance": Name("variance regularization", "constant", alone="no", alpha=0.1, penalty="variance", normalizes=1.0),
    "importance": Name("importance sampling", "no", alone="no", draws=True),
    "sampled_softmax": Name("sampled softmax", "no", alone="no", draws=True),
    "ranking": Name("ranking NCE", "no", alone="no", draws=True),
    "blackout": Name("BlackOut", "no", alone="no", draws=True),
    "adaptive": Name("adaptive softmax", "normalized", normalizes=0.2),
    "classes": Name("class softmax", "normalized", normalizes=0.02),
}


def lookup(name: str) -> Name:
    if name not in NAMES:
        raise UserError(
            f'criterion.name = "{name}" is not on the menu.{nearest(name, NAMES)} Known: {", ".join(NAMES)}.'
        )
    return NAMES[name]


def settle(settings: CriterionSettings) -> CriterionSettings:
    """The settings with the criterion's own alpha, gamma and penalty where none was given."""
    own = lookup(settings.name)
    return replace(
        settings,
        alpha=own.alpha if settings.alpha < 0 else settings.alpha,
        gamma=own.gamma if settings.gamma < 0 else settings.gamma,
        penalty=settings.penalty or own.penalty,
        subset=settings.subset or own.subset,
    )


def pins(settings: CriterionSettings) -> str:
    """What these settings do to log Z: the fit by itself, or the fit and a penalty that has a weight.

    A penalty on (log Z)², exact or sampled, pins it whatever the fit; one on its variance leaves a constant. A softmax
    whose penalty has no weight is a softmax, whatever its name.
    """
    chosen = settle(settings)
    own = NAMES[chosen.name]
    if own.pins == "normalized":
        return own.pins
    if chosen.name == "infrequent":  # its penalty is part of the fit
        return "yes" if chosen.alpha > 0 else "no"
    penalty = chosen.penalty if chosen.alpha > 0 else "none"
    if penalty in ("exact", "sampled"):
        return "constant" if chosen.name == "andreas" else "yes"
    return "constant" if penalty == "variance" and own.alone == "no" else own.alone


def label(criterion: str) -> str:
    return NAMES[criterion].paper if criterion in NAMES else criterion


def slug(data: str, criterion: str, d: int, alpha: float = 0.0, k: int = 100) -> str:
    """The first parts of a run's name, as `study run --only` takes them: ptb-nce_r-a10-d100."""
    weight = f"-a{alpha:g}" if alpha > 0 else ""
    draws = f"-k{k}" if k != 100 else ""
    return f"{data}-{criterion}{weight}{draws}-d{d}"

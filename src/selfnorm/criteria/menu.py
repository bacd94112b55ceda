"""MENU: every criterion by name, as a literal dictionary one can read and search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from selfnorm.batches import Window
from selfnorm.criteria.andreas import Score
from selfnorm.criteria.blackout import BlackOut
from selfnorm.criteria.fit import Draw, Fit
from selfnorm.criteria.importance import Importance
from selfnorm.criteria.infrequent import Infrequent
from selfnorm.criteria.linear_bound import LinearBound
from selfnorm.criteria.nce import Nce
from selfnorm.criteria.nce_batch import BatchNce
from selfnorm.criteria.negative import Negative
from selfnorm.criteria.penalty import Exact, Penalty
from selfnorm.criteria.ranking import Ranking
from selfnorm.criteria.sampled_penalty import Sampled
from selfnorm.criteria.sampled_softmax import SampledSoftmax
from selfnorm.criteria.snis import SelfNormalizedImportance
from selfnorm.criteria.softmax import Softmax
from selfnorm.criteria.variance import Variance
from selfnorm.errors import UserError
from selfnorm.names import lookup, pins, settle
from selfnorm.noise import make_noise
from selfnorm.output import Output
from selfnorm.recipe import CriterionSettings

Make = Callable[[CriterionSettings, Draw], Fit]


@dataclass(frozen=True)
class Entry:
    """One line of the menu; names.py has what can be known without torch: its name, defaults and whether it pins Z."""

    make: Make
    samples: bool = True  # draws noise words
    output: str = "full"  # the output layer it needs: full, adaptive or classes
    normalizer: bool = False  # a network trained together with the model


MENU: dict[str, Entry] = {
    "softmax": Entry(lambda s, d: Softmax(), samples=False),
    "devlin": Entry(lambda s, d: Softmax(), samples=False),
    "andreas": Entry(lambda s, d: Score(), samples=False),
    "nce": Entry(lambda s, d: Nce(d)),
    "nce_r": Entry(lambda s, d: Nce(d)),
    "nce_s": Entry(lambda s, d: Nce(d)),
    "nce_batch": Entry(lambda s, d: BatchNce(d)),
    "nce_learned": Entry(lambda s, d: Nce(d), normalizer=True),
    "negative": Entry(lambda s, d: Negative(d)),
    "linear_bound": Entry(lambda s, d: LinearBound(d)),
    "snis": Entry(lambda s, d: SelfNormalizedImportance(d)),
    "infrequent": Entry(lambda s, d: Infrequent(s.alpha, s.gamma, s.subset), samples=False),
    "z_loss": Entry(lambda s, d: Softmax(), samples=False),
    "variance": Entry(lambda s, d: Softmax(), samples=False),
    "importance": Entry(lambda s, d: Importance(d)),
    "sampled_softmax": Entry(lambda s, d: SampledSoftmax(d)),
    "ranking": Entry(lambda s, d: Ranking(d)),
    "blackout": Entry(lambda s, d: BlackOut(d)),
    "adaptive": Entry(lambda s, d: Softmax(), samples=False, output="adaptive"),
    "classes": Entry(lambda s, d: Softmax(), samples=False, output="classes"),
}


BENT = ("negative", "snis")  # their m is not log p until it is recovered


@dataclass(frozen=True)
class Loss:
    """The two halves (B, T), kept apart so that a penalty never hides inside a reported cross-entropy."""

    fit: Tensor
    penalty: Tensor | None
    apart: bool = False  # the penalty shares nothing with the fit but c and the parameters


@dataclass(frozen=True)
class Criterion:
    """A fit, plus alpha/gamma · (log Z)² on a share gamma of contexts."""

    fit: Fit
    penalty: Penalty | None = None

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Loss:
        fitted = self.fit(output, c, window, rng)
        penalty = fitted.penalty if self.penalty is None else self.penalty(output, c, window, fitted, rng)
        own = isinstance(self.penalty, Exact) and not self.penalty.shares(fitted)
        return Loss(fitted.loss, penalty, apart=own and penalty is not None and penalty.requires_grad)

    def backward(self, output: Output, c: Tensor, window: Window, rng: torch.Generator, scale: float) -> Loss:
        """Leave the gradients of scale · (fit + penalty), summed over the window, in all parameters behind them.

        A penalty that stands apart goes first: it leaves dense tables, into which the fit's sparse rows are then added in
        place. Together, torch would make a new dense table for every lookup. The encoder is gone through once, last.
        """
        head = c.detach().requires_grad_()
        loss = self(output, head, window, rng)
        halves = [loss.fit.sum()] if loss.penalty is None else [loss.penalty.sum(), loss.fit.sum()]
        for part in halves if loss.apart else [sum(halves[1:], halves[0])]:
            (scale * part).backward()  # type: ignore[no-untyped-call]
        if c.requires_grad:
            c.backward(head.grad)  # type: ignore[no-untyped-call]
        return loss

    def start(self, output: Output) -> None:
        """Make fresh weights ready: criteria whose m is not log p start their recovered m at -log V too."""
        make_ready = getattr(self.fit, "start", None)
        if make_ready is not None:
            make_ready(output)

    def recover(self, output: Output) -> Output:
        """The output layer whose m estimates log p: most criteria leave it as it is."""
        fold = getattr(self.fit, "recover", None)
        return output if fold is None else fold(output)


def entry(name: str) -> Entry:
    lookup(name)
    return MENU[name]


def make_criterion(
    settings: CriterionSettings, counts: np.ndarray, ids: np.ndarray | None = None, squash: bool = False
) -> Criterion:
    """The criterion named in the settings, with noise made from the training counts."""
    chosen, line = settle(settings), entry(settings.name)
    if squash and settings.name in BENT:
        raise UserError(
            f"criterion {settings.name} reads its scores through a function of its own; set model.squash = false."
        )
    if squash and line.output != "full":
        raise UserError(
            f"criterion {settings.name} has an output layer of its own, without squash; set model.squash = false."
        )
    if not pins(chosen):
        raise UserError(
            f"criterion {settings.name} raises scores without end unless (log Z)² is penalized: set criterion.alpha above 0, and "
            'criterion.penalty to "exact" or "sampled".'
        )
    sampled = chosen.alpha > 0 and chosen.penalty == "sampled"
    noise = make_noise(chosen.noise if line.samples or sampled else "uniform", counts, chosen.power, ids)
    draw = Draw(noise, chosen.k, chosen.shared)
    if chosen.name == "nce_batch" and (chosen.noise != "unigram" or chosen.power != 1):
        raise UserError(
            "nce_batch takes its noise from the batch, which is unigram^1: leave criterion.noise and power out."
        )
    return Criterion(line.make(chosen, draw), _penalty(chosen, line, draw))


def _penalty(settings: CriterionSettings, line: Entry, draw: Draw) -> Penalty | None:
    if settings.alpha <= 0 or settings.penalty == "none":
        return None
    if line.output != "full":
        raise UserError(
            f"criterion {settings.name} is normalized by construction: log Z is 0 and needs no penalty. Leave alpha out."
        )
    if settings.name == "infrequent":
        raise UserError("criterion infrequent has its penalty in its fit: leave criterion.penalty out, and set alpha.")
    if settings.name in BENT:
        raise UserError(
            f"criterion {settings.name} does not learn log p itself, so a penalty would pin the wrong sum. Leave alpha out."
        )
    if settings.penalty == "sampled":
        return Sampled(settings.alpha, draw)
    return (
        Variance(settings.alpha)
        if settings.penalty == "variance"
        else Exact(settings.alpha, settings.gamma, settings.subset)
    )

"""Build the criterion that a recipe names: a fit from the registry, and a penalty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from selfnorm._util.devices import HOST, wide
from selfnorm._util.errors import UserError
from selfnorm.config.criterion import pins, settle
from selfnorm.config.recipe import CriterionSettings
from selfnorm.criteria.fit import Draw, Fit
from selfnorm.criteria.penalty import Exact, Penalty
from selfnorm.criteria.sampled_penalty import Sampled
from selfnorm.criteria.variance import Variance
from selfnorm.data.windows import Window
from selfnorm.nn.noise import make_noise
from selfnorm.nn.output import Output
from selfnorm.registry import load
from selfnorm.registry.criteria import CRITERIA, CriterionInfo


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


def make_criterion(
    settings: CriterionSettings,
    counts: np.ndarray,
    ids: np.ndarray | None = None,
    squash: bool = False,
    device: torch.device = HOST,
) -> Criterion:
    """The criterion named in the settings, with noise made from the training counts, on the model's device."""
    chosen, info = settle(settings), CRITERIA.find(settings.name)
    if squash and info.recovers:
        raise UserError(f"criterion {settings.name} applies its own function to the scores; set model.squash = false.")
    if squash and info.output != "full":
        raise UserError(
            f"criterion {settings.name} has its own output layer, without squash; set model.squash = false."
        )
    if not pins(chosen):
        raise UserError(
            f"criterion {settings.name} raises scores without end unless (log Z)² is penalized: set criterion.alpha above 0, and "
            'criterion.penalty to "exact" or "sampled".'
        )
    sampled = chosen.alpha > 0 and chosen.penalty == "sampled"
    noise = make_noise(
        chosen.noise if info.draws or info.from_batch or sampled else "uniform", counts, chosen.power, ids
    )
    noise = noise.float() if wide(device) == torch.float32 else noise
    draw = Draw(noise.to(device), chosen.k, chosen.shared)
    if chosen.name == "nce_batch" and (chosen.noise != "unigram" or chosen.power != 1):
        raise UserError(
            "nce_batch takes its noise from the batch, which is unigram^1: leave criterion.noise and power out."
        )
    return Criterion(_fit(chosen, info, draw), _penalty(chosen, info, draw))


def _fit(settings: CriterionSettings, info: CriterionInfo, draw: Draw) -> Fit:
    """A class with `from_settings` is made by it; others take the draw of noise words, or nothing."""
    make = load(info.fit)
    if hasattr(make, "from_settings"):
        fit: Fit = make.from_settings(settings, draw)
        return fit
    fit = make(draw) if info.draws or info.from_batch else make()
    return fit


def _penalty(settings: CriterionSettings, info: CriterionInfo, draw: Draw) -> Penalty | None:
    if settings.alpha <= 0 or settings.penalty == "none":
        return None
    if info.output != "full":
        raise UserError(
            f"criterion {settings.name} is normalized by construction: log Z is 0 and needs no penalty. Leave alpha out."
        )
    if settings.name == "infrequent":
        raise UserError("criterion infrequent has its penalty in its fit: leave criterion.penalty out, and set alpha.")
    if info.recovers:
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

"""Training is a generator: it makes one step and says where it is. Its caller measures, saves and stops."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from selfnorm._util import devices
from selfnorm._util.errors import Diverged
from selfnorm.config.recipe import Training
from selfnorm.criteria.build import Criterion, Loss
from selfnorm.data.windows import Window, Windows
from selfnorm.nn.encoders import State, detach
from selfnorm.nn.model import LanguageModel
from selfnorm.nn.precision import products_in, widened
from selfnorm.training.exchange import Exchange
from selfnorm.training.optimizer import Optimizer
from selfnorm.training.sgd import scale_of, total_norm

EVERY = 16  # steps after which a device other than the CPU is asked for losses and norms


@dataclass
class Place:
    """Where training stands: everything besides weights and random generator that the next step depends on."""

    epoch: int = 1
    window: int = 0  # windows done in this epoch
    state: State | None = field(default=None, repr=False)
    fit: float = 0.0  # sums over the epoch's words so far, in float64
    penalty: float = 0.0
    words: int = 0
    known: bool = True  # are the sums of all steps so far in `fit` and `penalty`, and were they finite?


def learning_rate(training: Training, epoch: int) -> float:
    """1, divided by `decay` after every epoch starting after epoch `decay_after` (epochs count from 1)."""
    return training.learning_rate / training.decay ** max(0, epoch - training.decay_after)


def train(
    model: LanguageModel,
    criterion: Criterion,
    windows: Windows,
    training: Training,
    rng: torch.Generator,
    place: Place,
    optimizer: Optimizer | None = None,
    exchange: Exchange | None = None,
) -> Iterator[Place]:
    """Step through the windows from `place` on, yielding after each; the LSTM state is carried and never reset.

    At the end of an epoch `place.window` equals len(windows); the next step starts the next epoch.
    The loss is summed over time and averaged over the batch: rate 1 and clip 5 belong to that reduction.
    """
    optimizer = optimizer or Optimizer(model, training)
    reading = Reading(optimizer, training.clip, place, len(windows))
    while place.epoch <= training.epochs:
        for index in range(place.window, len(windows)):
            window = windows[index]
            loss, state = backward(model, criterion, window, training, place, _dropout(rng, windows, training, place))
            reading.step(loss, learning_rate(training, place.epoch), exchange)
            place.state, place.window = detach(state), index + 1
            place.words += window.batch.targets.numel()
            yield place
        place.epoch, place.window = place.epoch + 1, 0
        place.fit, place.penalty, place.words = 0.0, 0.0, 0


def backward(
    model: LanguageModel,
    criterion: Criterion,
    window: Window,
    training: Training,
    place: Place,
    rngs: tuple[torch.Generator, torch.Generator],
) -> tuple[Loss, State]:
    """Leave a window's gradients in the parameters; returns its losses and the state after it."""
    half, (rng, dropout) = training.precision == "bf16", rngs
    with products_in(training.precision):
        with torch.autocast(window.inputs.device.type, torch.bfloat16, enabled=half):
            c, state = model.contexts(window.inputs, place.state, dropout)
        scale = 1 / len(window.batch.targets)
        return criterion.backward(model.output, widened(c) if half else c, window, rng, scale), state


def _dropout(
    rng: torch.Generator, windows: Windows, training: Training, place: Place
) -> tuple[torch.Generator, torch.Generator]:
    """The generator of noise words, which is the same in all processes, and that of dropout.

    Of several processes each has its own masks. They are seeded by the step, so that nothing of them need be saved.
    """
    if len(windows.own) == windows.B:
        return rng, rng
    step = (place.epoch * len(windows) + place.window) * windows.B + windows.own.start
    return rng, devices.make_rng((training.seed * 0x9E3779B97F4A7C15 + step) % 2**63, windows.device)


class Reading:
    """Losses and norms go to the host together: at every step where that is free, after some steps from other devices.

    On a CPU a step whose numbers are not finite is not made. Elsewhere it is noticed a few steps later; nothing is saved before.
    """

    def __init__(self, optimizer: Optimizer, clip: float, place: Place, windows: int) -> None:
        self.optimizer, self.clip, self.place, self.windows = optimizer, clip, place, windows
        self.waiting: Tensor | None = None
        self.count = 0

    def step(self, loss: Loss, rate: float, exchange: Exchange | None) -> None:
        """The optimizer's step, with the gradients clipped, and the losses added to the place's sums."""
        device = loss.fit.device
        sums = [
            _sum(loss.fit),
            loss.fit.new_zeros((), dtype=_kind(device)) if loss.penalty is None else _sum(loss.penalty),
        ]
        told = [] if exchange is None else exchange(self.optimizer.parameters, sums)
        norms = [norm.to(_kind(device)) for norm in self.optimizer.norms()]
        if exchange is None and not devices.is_host(device):
            self._ahead(sums, norms, rate)
            return
        numbers: list[float] = torch.stack([*([] if told else sums), *norms]).tolist()
        fit, penalty, *each = [*told, *numbers]
        norm = total_norm(each)
        _refuse_nan(fit + penalty if math.isfinite(norm) else norm, self.place, self.windows)
        self.optimizer.apply(rate, scale_of(norm, self.clip))
        self.place.fit, self.place.penalty = self.place.fit + fit, self.place.penalty + penalty

    def _ahead(self, sums: list[Tensor], norms: list[Tensor], rate: float) -> None:
        """Everything stays on the device; its numbers are read now and then, and at the end of an epoch."""
        norm = torch.stack(norms).square().sum().sqrt()
        self.optimizer.apply(rate, (self.clip / norm).clamp(max=1.0).float())
        now = torch.stack([*sums, norm])  # what is not finite stays so, whatever is added
        self.waiting = now if self.waiting is None else self.waiting + now
        self.count += 1
        self.place.known = self.count % EVERY == 0 or self.place.window + 1 == self.windows
        if self.place.known:
            fit, penalty, total = self.waiting.tolist()
            self.waiting, self.count = None, 0
            _refuse_nan(fit + penalty if math.isfinite(total) else total, self.place, self.windows)
            self.place.fit, self.place.penalty = self.place.fit + fit, self.place.penalty + penalty


def _sum(loss: Tensor) -> Tensor:
    return loss.detach().sum(dtype=_kind(loss.device))


def _kind(device: torch.device) -> torch.dtype:
    return devices.wide(device)


def _refuse_nan(value: float, place: Place, count: int) -> None:
    if not math.isfinite(value):
        raise Diverged(
            f"The loss or its gradient became {value} in epoch {place.epoch}, window {place.window + 1} of {count}. Nothing of "
            "this step was kept. Try a lower training.learning_rate, a smaller criterion.alpha, or model.squash = true "
            "(AND-LM is unbounded below until its penalty bites)."
        )

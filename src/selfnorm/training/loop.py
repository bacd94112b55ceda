"""Training is a generator: it makes one step and says where it is. Its caller measures, saves and stops."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from selfnorm._util.errors import Diverged
from selfnorm.config.recipe import Training
from selfnorm.criteria.build import Criterion
from selfnorm.data.windows import Windows
from selfnorm.nn.encoders import State, detach
from selfnorm.nn.model import LanguageModel
from selfnorm.training.optimizer import Optimizer


@dataclass
class Place:
    """Where training stands: everything besides weights and random generator that the next step depends on."""

    epoch: int = 1
    window: int = 0  # windows done in this epoch
    state: State | None = field(default=None, repr=False)
    fit: float = 0.0  # sums over the epoch's words so far, in float64
    penalty: float = 0.0
    words: int = 0


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
) -> Iterator[Place]:
    """Step through the windows from `place` on, yielding after each; the LSTM state is carried and never reset.

    At the end of an epoch `place.window` equals len(windows); the next step starts the next epoch.
    The loss is summed over time and averaged over the batch: rate 1 and clip 5 belong to that reduction.
    """
    optimizer = optimizer or Optimizer(model, training)
    while place.epoch <= training.epochs:
        for index in range(place.window, len(windows)):
            window = windows[index]
            c, state = model.contexts(window.inputs, place.state, rng)
            loss = criterion.backward(model.output, c, window, rng, 1 / windows.B)
            total = loss.fit.detach().sum() + (0 if loss.penalty is None else loss.penalty.detach().sum())
            _refuse_nan(float(total), place, len(windows))
            norm = optimizer.step(learning_rate(training, place.epoch))
            _refuse_nan(norm, place, len(windows))
            place.state, place.window = detach(state), index + 1
            place.fit += float(loss.fit.detach().sum(dtype=torch.float64))
            place.penalty += 0.0 if loss.penalty is None else float(loss.penalty.detach().sum(dtype=torch.float64))
            place.words += window.targets.numel()
            yield place
        place.epoch, place.window = place.epoch + 1, 0
        place.fit, place.penalty, place.words = 0.0, 0.0, 0


def _refuse_nan(value: float, place: Place, count: int) -> None:
    if not math.isfinite(value):
        raise Diverged(
            f"The loss or its gradient became {value} in epoch {place.epoch}, window {place.window + 1} of {count}. Nothing of "
            "this step was kept. Try a lower training.learning_rate, a smaller criterion.alpha, or model.squash = true "
            "(AND-LM is unbounded below until its penalty bites)."
        )

"""Variance regularization: a penalty that makes log Z equal everywhere, wherever that is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from selfnorm._util.processes import mean_over_processes
from selfnorm.criteria.fit import Fitted
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


@dataclass(frozen=True)
class Variance:
    """Pull log Z towards its own mean.

        penalty(c) = alpha · (log Z - mean of log Z over the window)²

    Removes sigma_z and leaves mu_z free: with a softmax log Z ends at a constant, which `shift` removes (Chen et al. 2015).
    The mean is over all processes' contexts; as a number, because its gradients cancel: deviations from a mean sum to 0.
    """

    alpha: float

    def __call__(self, output: Output, c: Tensor, window: Window, fitted: Fitted, rng: torch.Generator) -> Tensor:
        log_z = fitted.log_z if fitted.log_z is not None else output.log_z(c)
        mean = log_z.mean() if window.whole is None else mean_over_processes(log_z.detach())
        return self.alpha * (log_z - mean) ** 2

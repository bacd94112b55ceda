"""Infrequent normalization: AND-LM without its bias."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from selfnorm.config.recipe import CriterionSettings
from selfnorm.criteria.fit import Draw, Fitted
from selfnorm.criteria.penalty import share, spread
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


@dataclass(frozen=True)
class Infrequent:
    """Normalize only a share gamma of the contexts, but with the softmax's own log Z term.

        loss(w, c) = -m(w,c) + (1/gamma) [c in D'] (log Z + alpha (log Z)²)

    The optimum is exp(m) = p: AND-LM's log Z = 1/(2 alpha) disappears (Chen, Grangier & Auli 2016).
    """

    alpha: float
    gamma: float
    subset: str = "contexts"

    @classmethod
    def from_settings(cls, settings: CriterionSettings, draw: Draw) -> Infrequent:
        return cls(settings.alpha, settings.gamma, settings.subset)

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        m = output.m(window.targets, c)
        flat = c.reshape(-1, c.shape[-1])
        chosen, real = share(window, self.gamma, self.subset, rng)
        if not len(chosen):
            return Fitted(-m)
        log_z = output.log_z(flat[chosen])
        fit, penalty = (spread(part, chosen, real, c.shape[:-1]) for part in (log_z, self.alpha * log_z**2))
        return Fitted(fit - m, penalty=penalty)

"""Penalties: the half of a criterion that pins log Z, a loss (B, T) added to the fit's. Here the exact one, on a share of contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from selfnorm._util.devices import coin
from selfnorm.criteria.fit import Fitted
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


class Penalty(Protocol):
    def __call__(self, output: Output, c: Tensor, window: Window, fitted: Fitted, rng: torch.Generator) -> Tensor: ...


def share(window: Window, gamma: float, subset: str, rng: torch.Generator) -> tuple[Tensor, float]:
    """The contexts of this window that belong to the paper's D', a random share gamma of all; and the share they really are.

    windows: all N with probability gamma, else none, so that most steps never compute log Z. contexts: gamma·N of them in
    every window. Both are unbiased and cost the same on average; clipping makes them differ. With single contexts the
    penalty's large gradient is in every step, is clipped together with the fit, and slows NCE-R down. With whole windows
    AND-LM, which nothing else holds, climbs for many steps before one clipped step pulls it back, and diverges.
    """
    own, N, device = window.targets.numel(), window.batch.targets.numel(), window.targets.device
    if subset == "windows":
        return torch.arange(own if coin(rng) < gamma else 0, device=device), gamma
    chosen = torch.randperm(N, generator=rng, device=device)[: max(1, round(gamma * N))]
    real = len(chosen) / N
    if window.whole is not None:  # of all streams' contexts those that are here
        start = window.first * window.targets.shape[1]
        chosen = chosen[(chosen >= start) & (chosen < start + own)] - start
    return chosen, real


def spread(values: Tensor, chosen: Tensor, gamma: float, shape: torch.Size) -> Tensor:
    """Values of the chosen contexts, weighted 1/gamma, zero for the others."""
    flat = values.new_zeros(shape.numel())
    return flat.index_put((chosen,), values / gamma).view(shape)


@dataclass(frozen=True)
class Exact:
    """alpha/gamma · (log Z)² on a random share gamma of the contexts; in expectation alpha · (log Z)² on all.

    Uses the fit's own log Z where it has one and gamma is 1 (Devlin); otherwise costs gamma·V·d a token.
    Where a normalizer g is trained with the model, scores are m - g(c), so this is alpha · (log Z of the rows - g(c))²: log Z
    need not be constant, only such that g can follow it.
    Eqs. 7 to 9 of Goldberger & Melamud (2018).
    """

    alpha: float
    gamma: float = 1.0
    subset: str = "contexts"

    def shares(self, fitted: Fitted) -> bool:
        return fitted.log_z is not None and self.gamma == 1

    def __call__(self, output: Output, c: Tensor, window: Window, fitted: Fitted, rng: torch.Generator) -> Tensor:
        if fitted.log_z is not None and self.shares(fitted):
            return self.alpha * fitted.log_z**2
        flat = c.reshape(-1, c.shape[-1])
        chosen, real = share(window, self.gamma, self.subset, rng)
        if not len(chosen):
            return flat.new_zeros(c.shape[:-1])
        return spread(self.alpha * output.log_z(flat[chosen]) ** 2, chosen, real, c.shape[:-1])

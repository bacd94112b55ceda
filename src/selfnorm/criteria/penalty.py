"""Penalties: the half of a criterion that pins log Z. Each gives a loss (B, T) beside the fit's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from selfnorm.batches import Window
from selfnorm.criteria.fit import Draw, Fitted
from selfnorm.output import Output


class Penalty(Protocol):
    def __call__(self, output: Output, c: Tensor, window: Window, fitted: Fitted, rng: torch.Generator) -> Tensor: ...


def share(N: int, gamma: float, rng: torch.Generator) -> Tensor:
    """A random share gamma of N contexts, at least one: the paper's D'."""
    return torch.randperm(N, generator=rng)[: max(1, round(gamma * N))]


@dataclass(frozen=True)
class Exact:
    """alpha/gamma · (log Z)² on a random share gamma of the contexts; in expectation alpha · (log Z)² on all.

    Uses the fit's own log Z where it has one and gamma is 1 (Devlin); otherwise costs gamma·V·d a token.
    Eqs. 7 to 9 of Goldberger & Melamud (2018).
    """

    alpha: float
    gamma: float = 1.0

    def __call__(self, output: Output, c: Tensor, window: Window, fitted: Fitted, rng: torch.Generator) -> Tensor:
        if fitted.log_z is not None and self.gamma == 1:
            return self.alpha * fitted.log_z**2
        flat = c.reshape(-1, c.shape[-1])
        chosen = share(len(flat), self.gamma, rng)
        weight = self.alpha * len(flat) / len(chosen)
        squares = weight * output.log_z(flat[chosen]) ** 2
        return flat.new_zeros(len(flat)).index_put((chosen,), squares).view(c.shape[:-1])


@dataclass(frozen=True)
class Sampled:
    """alpha · (log Ẑ)² with Ẑ = (1/k) Σ e^{m_i}/q_i from the fit's own noise words: nothing grows with V.

    log Ẑ is low by about Var(Ẑ)/(2 Z²), so the model settles a little above log Z = 0; `shift` removes that.
    """

    alpha: float
    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Window, fitted: Fitted, rng: torch.Generator) -> Tensor:
        drawn = fitted.drawn or self.draw(output, c, window, rng)
        return self.alpha * drawn.log_z_hat() ** 2


@dataclass(frozen=True)
class Variance:
    """alpha · (log Z - mean log Z)² over the window: removes sigma_z and leaves mu_z free (Chen et al. 2015)."""

    alpha: float

    def __call__(self, output: Output, c: Tensor, window: Window, fitted: Fitted, rng: torch.Generator) -> Tensor:
        log_z = fitted.log_z if fitted.log_z is not None else output.log_z(c)
        return self.alpha * (log_z - log_z.mean()) ** 2

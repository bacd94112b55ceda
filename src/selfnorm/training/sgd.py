"""SGD that touches only the rows with a gradient. No momentum, no decay: either would touch all V rows."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn


@torch.no_grad()
def step(parameters: Iterable[nn.Parameter], learning_rate: float, clip: float) -> float:
    """p -= learning_rate · gradient, scaled so that the norm over all gradients is at most `clip`; returns the norm.

    A row looked up twice has two entries in its sparse gradient. They are summed before the norm is
    taken: the norm over the raw entries is wrong. The scale goes into the update, not over the gradients.
    """
    moved = [p for p in parameters if p.grad is not None]
    gradients = [_summed(p.grad) for p in moved if p.grad is not None]
    norm = _norm(gradients)
    scale = min(1.0, clip / norm) if norm > 0 else 1.0
    for parameter, gradient in zip(moved, gradients, strict=True):
        parameter.add_(gradient, alpha=-learning_rate * scale)
        parameter.grad = None
    return norm


@torch.no_grad()
def norm_of(parameters: Iterable[nn.Parameter]) -> float:
    """The norm over all gradients; sparse ones are summed by row first, and stay so."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad = _summed(parameter.grad)
    return _norm([p.grad for p in parameters if p.grad is not None])


def _norm(gradients: Iterable[Tensor]) -> float:
    return math.sqrt(sum(_square(g) for g in gradients))


def _summed(gradient: Tensor) -> Tensor:
    return gradient.coalesce() if gradient.is_sparse else gradient


def _square(gradient: Tensor) -> float:
    values = gradient.values() if gradient.is_sparse else gradient
    return float(torch.linalg.vector_norm(values)) ** 2

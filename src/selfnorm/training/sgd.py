"""SGD that touches only the rows with a gradient. No momentum, no decay: either would touch all V rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from selfnorm._util import devices


def step(parameters: Iterable[nn.Parameter], learning_rate: float, clip: float) -> float:
    """p -= learning_rate · gradient, scaled so that the norm over all gradients is at most `clip`; returns the norm.

    A row looked up twice has two entries in its sparse gradient. They are summed before the norm is
    taken: the norm over the raw entries is wrong. The scale goes into the update, not over the gradients.
    """
    moved = [p for p in parameters if p.grad is not None]
    each = norms(moved)
    norm = total_norm(torch.stack(each).tolist()) if each else 0.0
    update(moved, learning_rate, scale_of(norm, clip))
    return norm


@torch.no_grad()
def norms(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """The norm of each gradient, on its device; sparse gradients are summed by row first, and stay so."""
    found = []
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad = _summed(parameter.grad)
            found.append(torch.linalg.vector_norm(_values(parameter.grad)))
    return found


def total_norm(each: Sequence[float]) -> float:
    return math.sqrt(sum(x**2 for x in each))


def scale_of(norm: float, clip: float) -> float:
    return min(1.0, clip / norm) if norm > 0 else 1.0


@torch.no_grad()
def update(parameters: Iterable[nn.Parameter], learning_rate: float, scale: float | Tensor) -> None:
    """p -= learning_rate · scale · gradient, and the gradients are gone. The scale may be a number that is still on the device."""
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is None:
            continue
        if not isinstance(scale, Tensor):
            parameter.add_(gradient, alpha=-learning_rate * scale)
        elif gradient.is_sparse:
            rows, values = gradient._indices()[0], gradient._values()
            parameter.index_put_((rows,), values * (-learning_rate * scale), accumulate=True)
        else:
            parameter.addcmul_(gradient, scale, value=-learning_rate)
        parameter.grad = None


def _summed(gradient: Tensor) -> Tensor:
    if not gradient.is_sparse:
        return gradient
    return gradient.coalesce() if devices.is_host(gradient.device) else _summed_ahead(gradient)


def _summed_ahead(gradient: Tensor) -> Tensor:
    """The same without asking the device how many different rows there are: as many entries as before, zeros at the end."""
    rows, order = gradient._indices()[0].sort(stable=True)
    values = gradient._values()[order]
    starts = torch.ones_like(rows, dtype=torch.bool)
    starts[1:] = rows[1:] != rows[:-1]
    place = starts.cumsum(0) - 1
    sums = torch.zeros_like(values).index_put_((place,), values, accumulate=True)
    firsts = torch.zeros_like(rows).index_put_(
        (place,), rows
    )  # all of a place's rows are the same; row 0 where nothing is
    return torch.sparse_coo_tensor(firsts.unsqueeze(0), sums, gradient.shape, check_invariants=False)


def _values(gradient: Tensor) -> Tensor:
    return gradient._values() if gradient.is_sparse else gradient

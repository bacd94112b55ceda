"""Checks that hold for every kind of kernel for training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def off(found: Tensor, expected: Tensor) -> float:
    """The relative error."""
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def check_lstm(lstm: Callable[..., Any], T: int, B: int, d: int, error: float) -> None:
    """Outputs, states and gradients of a layer are torch's, up to this relative error."""
    torch.manual_seed(0)
    layer, x, pull = nn.LSTM(d, d), random(T, B, d), random(T, B, d, seed=1)
    state = (random(1, B, d, seed=2) / 2, random(1, B, d, seed=3))
    found = []
    for run in (lambda x: layer(x, state), lambda x: lstm(layer, x, state)):
        own = x.clone().requires_grad_()
        layer.zero_grad()
        y, (h, c) = run(own)
        y.backward(pull)
        found.append([y.detach(), h.detach(), c.detach(), own.grad, *(p.grad.clone() for p in layer.parameters())])
    for expected, one in zip(*found, strict=True):
        assert one.shape == expected.shape and off(one, expected) < error


def check_nan_in_lstm(lstm: Callable[..., Any], x: Tensor) -> None:
    """x (20, 16) has a number that is not finite in row 3: it must reach the output of its stream, and the gradients."""
    layer = nn.LSTM(16, 16)
    y, _ = lstm(layer, x.view(4, 5, 16), None)
    assert torch.isnan(y[0, 3]).all() and not torch.isnan(y[0, :3]).any()
    y, _ = lstm(layer, random(4, 5, 16), None)
    y.backward(x.view(4, 5, 16))
    assert torch.isnan(layer.weight_ih_l0.grad).any()

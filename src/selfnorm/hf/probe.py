"""Find out by experiment what a model does between its head's linear layer and its logits, instead of reading its configuration.

    logits = cap · tanh(scale · (w·c + b) / cap)

Some models multiply by a scale (Cohere), some divide (Granite), some cap (Gemma 2). The names of these settings differ and change.
So the linear layer's result is replaced by known numbers, and scale and cap are read off what the model makes of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from selfnorm._util.errors import UserError

SMALL, LARGE = 0.1, 1e4  # scores that no cap bends, and one that every cap flattens


@dataclass(frozen=True)
class Link:
    """What becomes of a score before it is a logit. cap is None where nothing is capped."""

    scale: float = 1.0
    cap: float | None = None

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.scale if self.cap is None else self.cap * torch.tanh(x * (self.scale / self.cap))


@contextmanager
def head_replaced(linear: nn.Module, forward: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Inside this block `forward` stands for the head's linear layer: it is given the context vectors."""
    linear.forward = forward
    try:
        yield
    finally:
        del linear.forward  # the class's own is found again


def find_link(run: Callable[[Tensor], Any], linear: nn.Module, ids: Tensor, V: int) -> Link:
    """Scale and cap of a model, for `run(ids)` that gives its logits (B, T, V)."""
    grid = torch.cat([_grid(V // 2), -_grid(V - V // 2)])

    def known(c: Tensor) -> Tensor:
        return grid.to(c).expand(*c.shape[:-1], V)

    with head_replaced(linear, known):
        logits = run(ids).double()
    if logits.shape[-1] != V:
        raise UserError(f"The model has {logits.shape[-1]:,} logits, but its head has {V:,} rows. It cannot be used.")
    exact = grid.to(getattr(linear, "weight", grid).dtype).double()
    curve = logits.reshape(-1, V)[-1]
    link = _fitted(exact, curve)
    coarse = 0.02 if _half(linear) else 1e-4
    off = ((link(exact) - curve).abs() / (1 + curve.abs())).max()
    if not float(off) < coarse:
        raise UserError(
            f"Between the head and the logits this model does more than scale and cap: the best fit, scale {link.scale:.6g} and "
            f"cap {link.cap}, is off by {float(off):.3g}. It cannot be used."
        )
    return link


def _grid(count: int) -> Tensor:
    return torch.logspace(-3, math.log10(LARGE), count)


def _fitted(x: Tensor, y: Tensor) -> Link:
    small, large = x.abs() < SMALL, int(x.abs().argmax())
    scale, end = float((y[small] / x[small]).median()), float(y[large])
    if not (math.isfinite(scale) and scale > 0 and math.isfinite(end)):
        return Link(1.0)
    if abs(end) > 0.9 * scale * abs(float(x[large])):
        return Link(_round(abs(end / float(x[large]))))
    return Link(_round(scale), _round(abs(end)))


def _round(value: float) -> float:
    """Settings are written with few digits: what float32 adds to those is taken away."""
    short = float(f"{value:.5g}")
    return short if abs(short - value) < 1e-6 * abs(value) else value


def _half(linear: nn.Module) -> bool:
    weight = getattr(linear, "weight", None)
    return weight is not None and weight.dtype in (torch.bfloat16, torch.float16)

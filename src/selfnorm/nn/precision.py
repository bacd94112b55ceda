"""In which precision products are made.

In training that is the recipe's choice: bf16 is for GPUs, and for CPUs with AVX-512 or AMX; int16 is fixed point, for CPUs with
AVX2 or AVX-512. Outside of it scores and log Z are computed in float32 or better, whatever the caller does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

HALF = (torch.bfloat16, torch.float16)
Method = TypeVar("Method", bound=Callable[..., Any])

_products: ContextVar[str] = ContextVar("products", default="float32")


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """In this block, make the products of the encoder and of exact log Z so; sums, log Z and gradients stay float32."""
    before = _products.set(precision)
    try:
        yield
    finally:
        _products.reset(before)


def products() -> str:
    """The precision that products are made in now."""
    return _products.get()


def widened(x: Tensor) -> Tensor:
    """Half precision as float32, anything else as it is."""
    return x.float() if x.dtype in HALF else x


def without_autocast(method: Method) -> Method:
    """A method of tensors with autocast switched off, which would round the operands of its products to half precision.

    Call backward() outside of autocast, as usual: within it, gradients are rounded, except those of log Z.
    """

    @functools.wraps(method)
    def exact(self: Any, *tensors: Tensor, **named: Tensor) -> Any:
        device = (*tensors, *named.values())[0].device.type
        if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
            return method(self, *tensors, **named)
        with torch.autocast(device, enabled=False):
            return method(self, *tensors, **named)

    return cast(Method, exact)

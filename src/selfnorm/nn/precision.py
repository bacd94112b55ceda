"""In which precision products are made in training. What is measured is always float32.

bf16 is for GPUs, and for CPUs with AVX-512 or AMX. int16 is fixed point, for CPUs with AVX2 or AVX-512.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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

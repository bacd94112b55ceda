"""Products and LSTM layers in fixed point: what torch computes in float64, up to the rounding of the operands."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from selfnorm._util.isa import short_flags, vector_flags
from selfnorm.config.recipe import Model
from selfnorm.nn import int16
from selfnorm.nn.log_z import target_and_log_z
from selfnorm.nn.model import build
from selfnorm.nn.precision import products_in

from .kernels import check_lstm, check_nan_in_lstm, off, random

pytestmark = pytest.mark.skipif(
    not vector_flags() or shutil.which(os.environ.get("CC", "cc")) is None, reason="needs AVX2 and a C compiler"
)
LIMIT, CHUNK = 2895, 256  # the largest whole number an operand becomes; numbers with a scale of their own


@contextmanager
def threads_of_torch(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def test_the_kernels_compile() -> None:
    assert int16.library() is not None


def test_whole_numbers_are_multiplied_exactly() -> None:
    """Operands whose largest number is LIMIT are kept as they are: the sums must be right to the last bit of float32."""
    a, b = (random(*shape).mul(5).round() for shape in ((7, 300), (300, 35)))
    a[:, ::CHUNK], b[::CHUNK], a[:, 1::CHUNK], b[1::CHUNK] = LIMIT, 0, 0, LIMIT
    assert torch.equal(int16.product(a, b), a @ b)


def test_the_largest_sums_do_not_overflow() -> None:
    for sign in (1, -1):
        a, b = torch.full((5, 1000), 3.0), torch.full((1000, 16), 0.25 * sign)
        assert torch.allclose(int16.product(a, b), a @ b, rtol=1e-6)


@given(st.integers(1, 40), st.integers(1, 50), st.integers(1, 300), st.booleans(), st.booleans(), st.integers(1, 3))
def test_products_of_any_shape(M: int, N: int, K: int, turned_a: bool, turned_b: bool, threads: int) -> None:
    a, b, bias = random(M, K), random(K, N, seed=1), random(N, seed=2)
    a, b = a.t().contiguous().t() if turned_a else a, b.t().contiguous().t() if turned_b else b
    with threads_of_torch(threads):
        found = int16.product(a, b, bias)
    size = a.abs().amax(1, keepdim=True) * b.abs().amax(0, keepdim=True)
    assert ((found - (a @ b + bias)).abs() <= 1.01 * K / LIMIT * size + 1e-5).all()


@pytest.mark.skipif(not short_flags(), reason="needs AVX-512 with VNNI")
def test_both_kinds_of_instructions_give_the_same_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes, found = [(450, 400, 1100), (3, 5, 7), (33, 65, 257)], []
    try:
        for isa in ("", "avx2"):
            monkeypatch.setenv("SELFNORM_ISA", isa)
            int16.library.cache_clear()
            found.append([int16.product(random(M, K), random(K, N, seed=1)) for M, N, K in shapes])
    finally:
        monkeypatch.undo()
        int16.library.cache_clear()
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


def test_more_blocks_and_chunks_than_stay_in_the_second_cache() -> None:
    a, b = random(450, 1100), random(1100, 400, seed=1)
    assert off(int16.product(a, b), a @ b) < 0.001


def test_small_probabilities_beside_a_large_one_are_kept() -> None:
    """Each chunk of a row has its own scale: the tail of a distribution is not rounded away by its peak."""
    p = torch.full((1, 10_000), 1e-5)
    p[0, 3] = 0.9
    tail = torch.ones(10_000, 1)
    tail[:CHUNK] = 0
    assert off(int16.product(p, tail), p @ tail) < 1e-3


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("T, B, d", [(1, 1, 3), (5, 20, 37), (20, 20, 64), (3, 45, 100), (2, 3, 180), (2, 9, 2)])
def test_an_lstm_layer_and_its_gradients_are_torchs(T: int, B: int, d: int, threads: int) -> None:
    with threads_of_torch(threads):
        check_lstm(int16.lstm, T, B, d, 0.003)


def test_an_empty_batch_has_torchs_result_and_gradients() -> None:
    layer, x = torch.nn.LSTM(4, 4), torch.zeros(3, 0, 4)
    for run in (layer, lambda x: int16.lstm(layer, x, None)):
        layer.zero_grad()
        y, _ = run(x)
        y.sum().backward()
        assert y.shape == x.shape and not any(p.grad.any() for p in layer.parameters())


def test_log_z_and_its_gradients_are_those_of_float32() -> None:
    c, weight, bias = random(140, 50), random(300, 50, seed=1) / 5, random(300, 1, seed=2)
    w, found = torch.arange(140), {}
    for precision in ("float32", "int16"):
        parts = [t.clone().requires_grad_() for t in (c, weight, bias)]
        with products_in(precision):
            m, log_z = target_and_log_z(*parts, w)
        (log_z - m + 0.1 * log_z**2).sum().backward()
        found[precision] = [log_z.detach(), *(p.grad for p in parts)]
    for one, two in zip(found["int16"], found["float32"], strict=True):
        assert 0 < off(one, two) < 0.003


def test_what_is_not_a_number_is_not_hidden() -> None:
    """A step is refused if its loss or gradient is not finite: rounding must not turn nan or inf into a number."""
    for bad in (torch.nan, torch.inf):
        x = random(20, 16)
        x[3, 5] = bad
        assert torch.isnan(int16.product(x, random(16, 40))[3]).all()
        assert torch.isnan(int16.product(random(40, 20), x)[:, 5]).all()
        check_nan_in_lstm(int16.lstm, x)


def test_empty_and_strided_operands() -> None:
    bias = random(8)[::2]
    assert torch.equal(int16.product(torch.zeros(3, 0), torch.zeros(0, 4), bias), bias.expand(3, 4))
    assert int16.product(torch.zeros(0, 5), random(5, 4)).shape == (0, 4)
    a, b = random(9, 12)[:, ::2], random(6, 1).expand(6, 4)
    assert off(int16.product(a, b, bias), a @ b + bias) < 0.002


def test_zeros_stay_zeros() -> None:
    assert not int16.product(torch.zeros(3, 9), random(9, 4)).any()
    assert not int16.product(random(3, 9), torch.zeros(9, 4)).any()


def test_it_is_used_in_int16_training_only(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(int16, "_call", lambda name, *rest, call=int16._call: (calls.append(name), call(name, *rest)))
    encoder = build(Model(d=8), 50, torch.Generator().manual_seed(1)).encoder
    tokens = torch.zeros(2, 3, dtype=torch.long)
    encoder(tokens, None)
    with torch.no_grad(), products_in("int16"):
        encoder(tokens, None)
    assert not calls
    with products_in("int16"):
        encoder(tokens, None)[0].sum().backward()
    assert calls == ["int16_lstm"] * 2 + ["int16_lstm_gradient"] * 2

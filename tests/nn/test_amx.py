"""Products and LSTM layers on matrix tiles: what torch computes in float32 and float64, up to bf16 rounding of the operands."""

from __future__ import annotations

import os
import shutil

import pytest
import torch

from selfnorm._util.isa import uses_tiles
from selfnorm.config.recipe import Model
from selfnorm.nn import amx
from selfnorm.nn.log_z import target_and_log_z
from selfnorm.nn.model import build
from selfnorm.nn.precision import products_in

from .kernels import check_lstm, check_nan_in_lstm, off, random

pytestmark = pytest.mark.skipif(
    not uses_tiles() or shutil.which(os.environ.get("CC", "cc")) is None, reason="needs a CPU with AMX and a C compiler"
)


def test_the_kernels_compile() -> None:
    assert amx.library() is not None


@pytest.mark.parametrize(
    "N, V, d", [(1, 1, 1), (7, 50, 33), (20, 400, 100), (45, 31, 70), (32, 64, 32), (400, 130, 650), (16, 999, 700)]
)
def test_log_z_is_exact_but_for_the_rounding_of_scores(N: int, V: int, d: int) -> None:
    c, weight, bias = random(N, d), random(V, d, seed=1) / d**0.5, random(V, 1, seed=2)
    scores = c.bfloat16().double() @ weight.bfloat16().double().t() + bias.double().t()
    log_z, kept = amx.softmax(c, weight, bias)
    assert torch.allclose(log_z.double(), scores.logsumexp(1), atol=1e-5)
    P, s = scores.softmax(1), random(N, 1, seed=3)
    expected = (P @ weight.double() * s, P.t() @ (c * s).double(), P.t() @ s.double())
    for one, two in zip(amx.softmax_gradient(kept, c, s, V), expected, strict=True):
        assert one.shape == two.shape and off(one, two) < 0.01


def test_scores_of_any_size_have_a_finite_log_z() -> None:
    c, weight, bias = 30 * random(8, 16), random(100, 16, seed=1), torch.zeros(100, 1)
    log_z, kept = amx.softmax(c, weight, bias)
    assert torch.allclose(log_z, (c.bfloat16().float() @ weight.bfloat16().float().t()).logsumexp(1), rtol=1e-5)
    assert all(torch.isfinite(part).all() for part in amx.softmax_gradient(kept, c, torch.ones(8, 1), 100))


def test_scores_far_above_those_of_the_first_words() -> None:
    """The exponentials are made again from the best score of all, also where the first words are impossible."""
    c, weight, s = random(40, 20), random(100, 20, seed=1), random(40, 1, seed=3)
    for lowest in (-200.0, -torch.inf):
        bias = random(100, 1, seed=2)
        bias[:32] = lowest
        scores = c.bfloat16().double() @ weight.bfloat16().double().t() + bias.double().t()
        log_z, kept = amx.softmax(c, weight, bias)
        assert torch.allclose(log_z.double(), scores.logsumexp(1), atol=1e-5)
        P = scores.softmax(1)
        expected = (P @ weight.double() * s, P.t() @ (c * s).double(), P.t() @ s.double())
        for one, two in zip(amx.softmax_gradient(kept, c, s, 100), expected, strict=True):
            assert off(one, two) < 0.01


def test_any_strides_are_read_rightly() -> None:
    c, bias, s, wide = random(40, 9), random(50, 1, seed=2), random(9, 1, seed=3), random(50, 60, seed=1)
    for rows in (wide[:, :40], random(40, 50, seed=4).t()):
        log_z, kept = amx.softmax(c.t(), rows, bias)
        same_z, same = amx.softmax(c.t().contiguous(), rows.contiguous(), bias)
        assert torch.equal(log_z, same_z)
        for one, two in zip(
            amx.softmax_gradient(kept, c.t(), s, 50), amx.softmax_gradient(same, c.t(), s, 50), strict=True
        ):
            assert torch.equal(one, two)


def test_a_second_backward_makes_the_scores_again() -> None:
    c, weight, bias = (t.requires_grad_() for t in (random(6, 8), random(40, 8, seed=1), random(40, 1, seed=2)))
    with products_in("bf16"):
        loss = target_and_log_z(c, weight, bias, torch.arange(6))[1].sum()
        loss.backward(retain_graph=True)
        first, c.grad = c.grad, None
        loss.backward()
    assert off(c.grad, first) < 0.01


def test_the_budget_counts_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    c, weight, bias = random(3, 70), random(90, 70, seed=1), random(90, 1, seed=2)
    kept = amx.softmax(c, weight, bias)[1]
    needed = sum(part.numel() * part.element_size() for part in kept)
    assert amx.kept_bytes(3, 90, 70) == needed
    used: list[str] = []
    monkeypatch.setattr(amx, "softmax", lambda *a, call=amx.softmax: (used.append("tiles"), call(*a))[1])
    for budget in (needed - 1, needed):
        monkeypatch.setattr("selfnorm.nn.log_z.BUDGET", budget)
        with products_in("bf16"):
            target_and_log_z(c.requires_grad_(), weight, bias, torch.arange(3))
    assert used == ["tiles"]


@pytest.mark.parametrize("T, B, d", [(1, 1, 3), (5, 20, 37), (20, 20, 64), (3, 45, 100), (2, 3, 180), (2, 9, 2)])
def test_an_lstm_layer_and_its_gradients_are_torchs(T: int, B: int, d: int) -> None:
    check_lstm(amx.lstm, T, B, d, 0.01)


def test_log_z_and_its_gradients_are_those_of_float32() -> None:
    c, weight, bias = random(40, 50), random(300, 50, seed=1) / 5, random(300, 1, seed=2)
    w, found = torch.arange(40), {}
    for precision in ("float32", "bf16"):
        parts = [t.clone().requires_grad_() for t in (c, weight, bias)]
        with products_in(precision):
            m, log_z = target_and_log_z(*parts, w)
            (log_z - m + 0.1 * log_z**2).sum().backward()
        found[precision] = [log_z.detach(), *(p.grad for p in parts)]
    for one, two in zip(found["bf16"], found["float32"], strict=True):
        assert 0 < off(one, two) < 0.01


def test_what_is_not_a_number_is_not_hidden() -> None:
    """A step is refused if its loss or gradient is not finite: the kernels must not turn nan into a number."""
    nan = random(20, 16)
    nan[3, 5] = torch.nan
    assert torch.isnan(amx.softmax(nan, random(40, 16), torch.zeros(40, 1))[0][3])
    weight = random(40, 16)
    weight[7, 2] = torch.nan
    assert torch.isnan(amx.softmax(random(20, 16), weight, torch.zeros(40, 1))[0]).all()
    check_nan_in_lstm(amx.lstm, nan)


def test_tiles_are_used_in_bf16_training_only(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(amx, "_call", lambda name, *rest, call=amx._call: (calls.append(name), call(name, *rest)))
    encoder = build(Model(d=8), 50, torch.Generator().manual_seed(1)).encoder
    tokens = torch.zeros(2, 3, dtype=torch.long)
    encoder(tokens, None)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        encoder(tokens, None)
    assert not calls
    with torch.autocast("cpu", torch.bfloat16):
        encoder(tokens, None)[0].sum().backward()
    assert calls == ["amx_lstm"] * 2 + ["amx_lstm_gradient"] * 2

"""Products and LSTM layers on matrix tiles: what torch computes in float32 and float64, up to bf16 rounding of the operands."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from selfnorm.config.recipe import Model
from selfnorm.nn import amx
from selfnorm.nn.log_z import half_products, target_and_log_z
from selfnorm.nn.model import build

pytestmark = pytest.mark.skipif(amx.library() is None, reason="needs a CPU with AMX and a C compiler")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def off(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected.double()).norm() / expected.double().norm())


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


def test_threads_share_the_words_and_change_nothing() -> None:
    c, weight, bias, s = random(70, 40), random(333, 40, seed=1), random(333, 1, seed=2), random(70, 1, seed=3)
    before, found = torch.get_num_threads(), {}
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            log_z, kept = amx.softmax(c, weight, bias)
            found[threads] = [log_z, *amx.softmax_gradient(kept, c, s, 333)]
    finally:
        torch.set_num_threads(before)
    for threads in (2, 5):
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found[1], found[threads], strict=True))


@pytest.mark.parametrize("T, B, d", [(1, 1, 3), (5, 20, 37), (20, 20, 64), (3, 45, 100)])
def test_an_lstm_layer_and_its_gradients_are_torchs(T: int, B: int, d: int) -> None:
    torch.manual_seed(0)
    layer, x, pull = nn.LSTM(d, d), random(T, B, d), random(T, B, d, seed=1)
    state = (random(1, B, d, seed=2) / 2, random(1, B, d, seed=3))
    found = {}
    for name, run in (("torch", lambda x: layer(x, state)), ("amx", lambda x: amx.lstm(layer, x, state))):
        given = x.clone().requires_grad_()
        layer.zero_grad()
        y, (h, c) = run(given)
        y.backward(pull)
        found[name] = [y.detach(), h.detach(), c.detach(), given.grad, *(p.grad.clone() for p in layer.parameters())]
    for one, two in zip(found["amx"], found["torch"], strict=True):
        assert one.shape == two.shape and off(one, two) < 0.01


def test_log_z_and_its_gradients_are_those_of_float32() -> None:
    c, weight, bias = random(40, 50), random(300, 50, seed=1) / 5, random(300, 1, seed=2)
    w, found = torch.arange(40), {}
    for half in (False, True):
        parts = [t.clone().requires_grad_() for t in (c, weight, bias)]
        with half_products(half):
            m, log_z = target_and_log_z(*parts, w)
            (log_z - m + 0.1 * log_z**2).sum().backward()
        found[half] = [log_z.detach(), *(p.grad for p in parts)]
    for one, two in zip(found[True], found[False], strict=True):
        assert 0 < off(one, two) < 0.01


def test_what_is_not_a_number_is_not_hidden() -> None:
    """A step is refused if its loss or gradient is not finite: the kernels must not turn nan into a number."""
    nan = random(20, 16)
    nan[3, 5] = torch.nan
    assert torch.isnan(amx.softmax(nan, random(40, 16), torch.zeros(40, 1))[0][3])
    y, _ = amx.lstm(nn.LSTM(16, 16), nan.view(4, 5, 16), None)
    assert torch.isnan(y[0, 3]).all() and not torch.isnan(y[0, :3]).any()


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

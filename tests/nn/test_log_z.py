"""The one-pass log Z against plain autograd in float64, inside and outside its memory budget."""

from __future__ import annotations

import pytest
import torch

from selfnorm.nn import log_z as one_pass
from selfnorm.nn.output import Output


@pytest.mark.parametrize("budget", [1 << 30, 0])
@pytest.mark.parametrize("piece", [1 << 26, 600])
def test_values_and_gradients_are_those_of_plain_autograd(
    budget: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_pass, "BUDGET", budget)
    monkeypatch.setattr(one_pass, "SLICE", piece)
    monkeypatch.setattr(one_pass, "PANEL", 5)  # 17 words: three whole panels and a rest
    rng = torch.Generator().manual_seed(0)
    c = torch.randn(11, 4, generator=rng, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(17, 4, generator=rng, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(17, 1, generator=rng, dtype=torch.float64, requires_grad=True)
    w = torch.randint(17, (11,), generator=rng)
    up = torch.randn(2, 11, generator=rng, dtype=torch.float64)

    m, log_z = one_pass.target_and_log_z(c, weight, bias, w)
    got = torch.autograd.grad((up[0] * m).sum() + (up[1] * log_z**2).sum(), [c, weight, bias])
    scores = c @ weight.t() + bias.view(-1)
    plain_m, plain_z = scores.gather(1, w[:, None]).squeeze(1), scores.logsumexp(1)
    expected = torch.autograd.grad((up[0] * plain_m).sum() + (up[1] * plain_z**2).sum(), [c, weight, bias])

    assert torch.allclose(m, plain_m) and torch.allclose(log_z, plain_z)
    for one, two in zip(got, expected, strict=True):
        assert torch.allclose(one, two)


def test_large_scores_do_not_overflow() -> None:
    made = Output(5, 1)
    with torch.no_grad():
        made.bias.copy_(torch.tensor([[300.0], [-300.0], [299.0], [0.0], [1.0]]))
    assert torch.isfinite(made.log_z(torch.zeros(2, 1))).all()


def test_log_z_is_right_where_the_target_has_no_probability_left() -> None:
    c, weight = torch.ones(3, 1), torch.zeros(4, 1, requires_grad=True)
    bias = torch.tensor([[0.0], [200.0], [-90.0], [1.0]], requires_grad=True)
    w = torch.tensor([2, 1, 0])  # P(w) is e^-290, 1 and e^-200
    m, log_z = one_pass.target_and_log_z(c, weight, bias, w)
    assert m.tolist() == [-90, 200, 0] and torch.allclose(log_z, torch.full((3,), 200.0))
    (log_z - m).sum().backward()
    assert bias.grad is not None and torch.allclose(bias.grad.view(-1), torch.tensor([-1.0, 2, -1, 0]))


def test_nothing_is_kept_where_no_gradient_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_pass, "_probabilities", None)
    c, bias, w = torch.rand(3, 2), torch.rand(5, 1), torch.tensor([0, 4, 2])
    weight = torch.rand(5, 2, requires_grad=True)
    with torch.no_grad():
        m, log_z = one_pass.target_and_log_z(c, weight, bias, w)
    every = c @ weight.t() + bias.view(-1)
    assert torch.allclose(m, every.gather(1, w[:, None])[:, 0]) and torch.allclose(log_z, every.logsumexp(1))
    assert not one_pass.target_and_log_z(c, weight.detach(), bias, w)[1].requires_grad


def test_blocks_cover_every_word_once_and_fit_the_slice() -> None:
    parts = list(one_pass.blocks(1000, 50_000))
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(50_000))
    assert all((part.stop - part.start) * 1000 * 4 <= one_pass.SLICE for part in parts)


def test_m_of_k_words_is_the_slow_sum_for_every_way_of_sharing() -> None:
    made = Output(13, 3).double()
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        made.weight.uniform_(-1, 1, generator=rng)
    c = torch.randn(2, 4, 3, generator=rng, dtype=torch.float64)
    everything = made.all_m(c.view(-1, 3)).view(2, 4, 13)
    token = torch.randint(13, (2, 4, 5), generator=rng)
    step = torch.randint(13, (4, 5), generator=rng)
    window = torch.randint(13, (5,), generator=rng)
    assert torch.allclose(made.m_each(token, c), everything.gather(2, token))
    assert torch.allclose(made.m_each(step, c), everything.gather(2, step.expand(2, 4, 5)))
    assert torch.allclose(made.m_shared(window, c), everything[..., window])
    assert torch.allclose(made.m(token[..., 0], c), everything.gather(2, token[..., :1]).squeeze(2))


def test_step_noise_is_not_mistaken_for_targets_when_batch_steps_and_k_are_equal() -> None:
    made = Output(13, 3)
    c = torch.ones(4, 4, 3)
    w = torch.arange(16).view(4, 4) % 13  # (T, k) with T = k = B
    assert made.m_each(w, c).shape == (4, 4, 4)

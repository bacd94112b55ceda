"""The z-loss against the mistakes people make with it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from selfnorm.zloss import Monitor, z_loss


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    labels = torch.randint(11, (3, 5), generator=rng)
    labels[0, 2:] = -100
    return torch.randn(3, 5, 11, generator=rng) * 2, labels


def test_the_fit_is_torchs_cross_entropy_and_the_penalty_a_mean_of_squares(
    batch: tuple[torch.Tensor, torch.Tensor],
) -> None:
    logits, labels = batch
    found = z_loss(logits, labels, alpha=0.5)
    assert float(found.fit) == pytest.approx(float(F.cross_entropy(logits.view(-1, 11), labels.view(-1))), abs=1e-6)
    slow = [float(logits[i, j].logsumexp(0)) ** 2 for i in range(3) for j in range(5) if labels[i, j] != -100]
    assert float(found.penalty) == pytest.approx(0.5 * sum(slow) / len(slow), rel=1e-5)
    assert float(found.total) == pytest.approx(float(found.fit) + float(found.penalty))


def test_masked_tokens_change_nothing_and_alpha_zero_is_off(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    logits, labels = batch
    other = logits.clone()
    other[0, 2:] = 100.0
    assert float(z_loss(logits, labels).total) == float(z_loss(other, labels).total)
    assert float(z_loss(logits, labels, alpha=0).penalty) == 0
    with pytest.raises(ValueError, match="every label"):
        z_loss(logits, torch.full_like(labels, -100))


def test_gradients_agree_with_finite_differences(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    logits, labels = batch[0].double().requires_grad_(), batch[1]
    for part in ("fit", "penalty", "total"):
        assert torch.autograd.gradcheck(lambda x, part=part: getattr(z_loss(x, labels, alpha=0.3), part), [logits])


def test_bfloat16_logits_get_a_float32_log_z(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    logits, labels = batch
    assert z_loss(logits.bfloat16(), labels).log_z.dtype == torch.float32


def test_the_monitor_is_the_mean_and_spread_of_all_it_saw() -> None:
    parts = [torch.randn(100, generator=torch.Generator().manual_seed(i)) + 3 for i in range(5)]
    monitor = Monitor()
    for part in parts:
        monitor.add(part)
    whole = torch.cat(parts).double()
    assert monitor.mu_z == pytest.approx(float(whole.mean())) and monitor.sigma_z == pytest.approx(
        float(whole.std(unbiased=False))
    )
    assert "Under control" in monitor.sentence()
    monitor.add(torch.tensor([90.0]))
    assert "Out of control" in monitor.sentence()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_log_z_that_is_no_number_is_out_of_control(value: float) -> None:
    monitor = Monitor()
    assert "no tokens" in monitor.sentence()
    monitor.add(torch.tensor([1.0, value]))
    assert "Out of control" in monitor.sentence() and "spread nan" in monitor.sentence()

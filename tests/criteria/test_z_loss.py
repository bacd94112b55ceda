"""The z-loss against the mistakes people make with it."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from selfnorm.criteria.z_loss import LogZMonitor as Monitor
from selfnorm.criteria.z_loss import z_loss


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


def test_labels_that_do_not_fit_are_refused() -> None:
    logits, labels = torch.randn(4, 7, 50), torch.randint(50, (4, 7))
    for wrong in (labels.t(), labels.reshape(2, 14), labels[:, :-1]):
        with pytest.raises(ValueError, match="need labels"):
            z_loss(logits, wrong)
    with pytest.raises(ValueError, match="ignore_index"):
        z_loss(logits, labels.masked_fill(labels == labels[0, 0], -1))


def test_micro_batches_add_up_to_their_batch() -> None:
    torch.manual_seed(0)
    logits = torch.randn(4, 7, 50, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(50, (4, 7)).masked_fill(torch.rand(4, 7) < 0.3, -100)
    labels[2] = -100  # a part with nothing to learn from
    whole = z_loss(logits, labels, alpha=0.1)
    (expected,) = torch.autograd.grad(whole.total, logits)
    tokens = int((labels != -100).sum())
    parts = [z_loss(logits[i], labels[i], alpha=0.1, tokens=tokens) for i in range(4)]
    total = torch.stack([part.total for part in parts]).sum()
    assert torch.allclose(total, whole.total)
    assert torch.allclose(torch.autograd.grad(total, logits)[0], expected)


def test_a_monitor_speaks_of_what_came_since_its_reset_and_takes_others_in() -> None:
    monitor, other = Monitor(), Monitor()
    assert math.isnan(monitor.mu_z) and math.isnan(monitor.sigma_z)
    monitor.add(torch.full((1000,), 100.0))
    assert "Out of control" in monitor.sentence()
    monitor.reset()
    monitor.add(torch.zeros(1000))
    assert "Under control" in monitor.sentence()
    other.add(torch.full((1000,), 30.0))
    monitor.merge(other)
    assert monitor.mu_z == 15 and monitor.largest == 30 and monitor.sigma_z == 15 and "Drifting" in monitor.sentence()
    spread = Monitor()
    spread.add(torch.tensor([-15.0, 15.0]))
    assert "Drifting" in spread.sentence()


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        (torch.tensor([1.0, 2.0]), {}),
        (torch.tensor([True, False]), {}),
        (torch.tensor([1, 2]), {"tokens": 0}),
        (torch.tensor([1, 2]), {"tokens": -3}),
        (torch.tensor([1, 2]), {"alpha": -1.0}),
        (torch.tensor([1, 2]), {"alpha": float("nan")}),
        (torch.tensor([-100, -100]), {"tokens": 0}),
    ],
)
def test_what_would_give_a_loss_without_meaning_is_refused(labels: torch.Tensor, options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"expected|must be|nothing to learn"):
        z_loss(torch.randn(2, 5), labels, **options)


def test_small_integers_are_labels_too() -> None:
    logits, labels = torch.randn(3, 300), torch.tensor([1, 156, 200])  # -100 is 156 in a byte, and 300 is 44
    assert z_loss(logits, labels.to(torch.uint8)).total == z_loss(logits, labels).total

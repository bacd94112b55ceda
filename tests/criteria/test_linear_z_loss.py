"""linear_z_loss against a slow float64 reference, and against the bugs that other implementations had."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from selfnorm.criteria import linear_z_loss as module
from selfnorm.criteria.linear_z_loss import linear_z_loss
from selfnorm.criteria.z_loss import ZLoss, z_loss

V, D = 50, 16


def batch(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 7, D, generator=rng, dtype=torch.float64).to(dtype).requires_grad_()
    weight = torch.randn(V, D, generator=rng, dtype=torch.float64).to(dtype).requires_grad_()
    bias = torch.randn(V, generator=rng, dtype=torch.float64).to(dtype).requires_grad_()
    labels = torch.randint(V, (3, 7), generator=rng)
    labels[0, 2:] = -100
    return hidden, weight, bias, labels


def reference(
    hidden: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, alpha: float, scale: float, cap: float | None
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """fit and penalty token by token in float64, and the gradients of their sum."""
    h, w, b = (x.detach().double().requires_grad_() for x in (hidden, weight, bias))
    fits, squares = [], []
    for c, label in zip(h.reshape(-1, D), labels.reshape(-1).tolist(), strict=True):
        if label == -100:
            continue
        x = scale * (w @ c + b)
        m = x if cap is None else cap * torch.tanh(x / cap)
        fits.append(m.logsumexp(0) - m[label])
        squares.append(m.logsumexp(0) ** 2)
    fit, penalty = sum(fits) / len(fits), alpha * sum(squares) / len(squares)  # type: ignore[operator]
    return fit.detach(), penalty.detach(), list(torch.autograd.grad(fit + penalty, [h, w, b]))


@pytest.fixture(params=[1 << 26, 1], ids=["one piece", "many pieces"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD", request.param)
    monkeypatch.setattr(module, "LEAST", 4)
    monkeypatch.setattr(module, "PANEL", 7)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize(("scale", "cap"), [(1.0, None), (0.25, None), (1.0, 5.0), (0.5, 3.0)])
def test_loss_and_gradients_are_those_of_a_float64_reference(scale: float, cap: float | None) -> None:
    hidden, weight, bias, labels = batch()
    loss = linear_z_loss(hidden, weight, labels, 0.1, bias, scale, cap)
    loss.total.backward()
    fit, penalty, gradients = reference(hidden, weight, bias, labels, 0.1, scale, cap)
    assert loss.fit.item() == pytest.approx(float(fit), rel=1e-6)
    assert loss.penalty.item() == pytest.approx(float(penalty), rel=1e-6)
    for ours, expected in zip((hidden.grad, weight.grad, bias.grad), gradients, strict=True):
        assert ours is not None
        assert float((ours.double() - expected).abs().max()) <= 1e-6 * max(1.0, float(expected.abs().max()))


@pytest.mark.usefixtures("pieces")
def test_the_backward_pass_multiplies_by_what_comes_from_above() -> None:
    hidden, weight, _, labels = batch(torch.float64)
    (3 * linear_z_loss(hidden, weight, labels, 0.1).total).backward()
    (expected,) = torch.autograd.grad(z_loss(hidden @ weight.t(), labels, 0.1).total, [weight])
    assert weight.grad is not None and torch.allclose(weight.grad, 3 * expected)


@pytest.mark.usefixtures("pieces")
def test_bfloat16_inputs_have_a_float32_log_z() -> None:
    hidden, weight, _, labels = batch(torch.bfloat16)
    loss = linear_z_loss(hidden, weight, labels, 0.1)
    exact = (hidden.detach().double() @ weight.detach().double().t()).logsumexp(-1)[labels != -100]
    rounded = (hidden.detach() @ weight.detach().t()).float().logsumexp(-1)[labels != -100]
    assert float((loss.log_z.double() - exact).abs().max()) < 1e-5 < 1e-3 < float((rounded - exact).abs().max())
    loss.total.backward()
    assert weight.grad is not None and weight.grad.dtype == torch.bfloat16 == hidden.grad.dtype  # type: ignore[union-attr]


def test_autocast_does_not_make_it_coarse() -> None:
    hidden, weight, _, labels = batch()
    with torch.autocast("cpu", torch.bfloat16):
        inside = linear_z_loss(hidden, weight, labels, 0.1)
    assert inside.total.item() == linear_z_loss(hidden, weight, labels, 0.1).total.item()


# Bugs that other implementations had


def both(hidden: Tensor, weight: Tensor, labels: Tensor, alpha: float) -> list[ZLoss]:
    return [linear_z_loss(hidden, weight, labels, alpha), z_loss(hidden @ weight.t(), labels, alpha)]


def test_the_penalty_is_the_mean_of_squares_not_the_square_of_the_mean() -> None:
    hidden, weight, _, labels = batch()
    for loss in both(hidden, weight, labels, 1.0):
        assert loss.penalty.item() == pytest.approx(float((loss.log_z**2).mean()), rel=1e-5)
        assert loss.penalty.item() > float(loss.log_z.mean()) ** 2 * 1.01


def test_switched_off_there_is_no_penalty_and_no_gradient_of_one() -> None:
    hidden, weight, _, labels = batch(torch.float64)
    plain = F.cross_entropy((hidden @ weight.t()).view(-1, V), labels.view(-1))
    expected = torch.autograd.grad(plain, [hidden, weight])
    for loss in both(hidden, weight, labels, 0.0):
        assert loss.penalty.item() == 0 and loss.total.item() == loss.fit.item() == pytest.approx(plain.item())
        for ours, theirs in zip(torch.autograd.grad(loss.total, [hidden, weight]), expected, strict=True):
            assert torch.allclose(ours, theirs)


def test_every_token_weighs_the_same_whatever_its_instance() -> None:
    hidden, weight, _, labels = batch()
    for loss in both(hidden, weight, labels, 1.0):
        alone = [z_loss(hidden[i] @ weight.t(), labels[i], 1.0) for i in range(3)]
        of_instances = sum(x.total.item() for x in alone) / 3
        counts = [int((labels[i] != -100).sum()) for i in range(3)]
        of_tokens = sum(x.total.item() * n for x, n in zip(alone, counts, strict=True)) / sum(counts)
        assert loss.total.item() == pytest.approx(of_tokens, rel=1e-5) != pytest.approx(of_instances, rel=1e-3)


def test_parts_add_up_to_their_batch_and_tokens_may_be_a_tensor() -> None:
    hidden, weight, _, labels = batch(torch.float64)
    whole, tokens = linear_z_loss(hidden, weight, labels, 0.1), (labels != -100).sum()
    parts = [linear_z_loss(hidden[i], weight, labels[i], 0.1, tokens=tokens).total for i in range(3)]
    assert sum(x.item() for x in parts) == pytest.approx(whole.total.item())


def test_what_is_masked_may_be_anything() -> None:
    hidden, weight, _, labels = batch()
    logits = torch.randn(3, 7, V)
    with torch.no_grad():
        hidden[0, 2:], logits[0, 2:] = float("nan"), float("nan")
    logits.requires_grad_()
    fused, plain = linear_z_loss(hidden, weight, labels, 0.1).total, z_loss(logits, labels, 0.1).total
    gradients = [*torch.autograd.grad(fused, [hidden, weight]), *torch.autograd.grad(plain, [logits])]
    assert all(bool(torch.isfinite(x).all()) for x in (fused, plain, *gradients))
    assert float(gradients[0][0, 2:].abs().max()) == 0 == float(gradients[2][0, 2:].abs().max())


# Cost


class Largest(TorchDispatchMode):
    """The most numbers that any tensor made inside has, and whether a (V, d) tensor was made."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers, self.shapes = 0, set[tuple[int, ...]]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else [result]:
            if isinstance(x, Tensor):
                self.numbers = max(self.numbers, x.numel())
                self.shapes.add(tuple(x.shape))
        return result


def test_the_logits_are_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD", 1)
    monkeypatch.setattr(module, "LEAST", 8)
    hidden, weight = torch.randn(400, D, requires_grad=True), torch.randn(V, D, requires_grad=True)
    with Largest() as seen:
        linear_z_loss(hidden, weight, torch.randint(V, (400,)), 0.1).total.backward()
    assert seen.numbers <= 400 * D < 400 * V


def test_a_frozen_head_gets_no_gradient_and_evaluation_none_at_all() -> None:
    hidden, weight, _, labels = batch()
    weight.requires_grad_(False)
    with Largest() as seen:
        linear_z_loss(hidden, weight, labels, 0.1).total.backward()
    assert weight.grad is None and hidden.grad is not None and (V, D) not in seen.shapes
    with torch.no_grad(), Largest() as seen:
        assert not linear_z_loss(hidden, weight, labels, 0.1).total.requires_grad
    assert (V, D) not in seen.shapes


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # of Dynamo itself
def test_torch_compile_finds_one_graph() -> None:
    hidden, weight, bias, labels = batch()
    fused = torch.compile(
        lambda h, w, b, y: linear_z_loss(h, w, y, 0.1, b, 0.5, 3.0).total, backend="aot_eager", fullgraph=True
    )
    plain = torch.compile(lambda x, y: z_loss(x, y, 0.1).total, backend="aot_eager", fullgraph=True)
    fused(hidden, weight, bias, labels).backward()
    _, _, gradients = reference(hidden, weight, bias, labels, 0.1, 0.5, 3.0)
    assert weight.grad is not None and torch.allclose(weight.grad.double(), gradients[1], atol=1e-5)
    logits = torch.randn(3, 7, V)
    assert float(plain(logits, labels)) == pytest.approx(float(z_loss(logits, labels, 0.1).total))


def test_the_host_waits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[str] = []
    for name in ("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "nonzero", "cpu", "numpy"):
        original = getattr(Tensor, name)

        def counted(self: Tensor, *args: Any, name: str = name, original: Any = original, **more: Any) -> Any:
            waits.append(name)
            return original(self, *args, **more)

        monkeypatch.setattr(Tensor, name, counted)
    hidden, weight, _, labels = batch()
    linear_z_loss(hidden, weight, labels, 0.1).total.backward()
    assert waits == ["tolist"]
    z_loss(torch.randn(3, 7, V), labels, tokens=(labels != -100).sum())
    assert waits == ["tolist"] * 2


def test_a_loss_scale_keeps_small_gradients_of_half_precision() -> None:
    """A large accumulated batch divides by so many tokens that float16 has no such small numbers; the scale brings them back."""
    hidden, weight, _, labels = batch()
    half, scale = hidden.detach().half().requires_grad_(), 65536.0
    (linear_z_loss(half, weight, labels, 0.1, tokens=1e6).total * scale).backward()
    wide = half.detach().float().requires_grad_()
    linear_z_loss(wide, weight, labels, 0.1, tokens=1e6).total.backward()
    assert half.grad is not None and wide.grad is not None and half.grad.dtype == torch.float16
    assert torch.allclose(half.grad.float() / scale, wide.grad, rtol=0.001, atol=1e-12)


def test_gradients_may_be_asked_for_twice() -> None:
    hidden, weight, _, labels = batch()
    total = linear_z_loss(hidden, weight, labels, 0.1).total * 3
    one = torch.autograd.grad(total, [hidden, weight], retain_graph=True)
    two = torch.autograd.grad(total, [hidden, weight])
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_reductions_are_the_parts_of_the_mean(reduction: str) -> None:
    hidden, weight, _, labels = batch()
    logits, count = hidden @ weight.t(), int((labels != -100).sum())
    mean, other = z_loss(logits, labels, 0.1), z_loss(logits, labels, 0.1, reduction=reduction)
    for name in ("total", "fit", "penalty"):
        assert getattr(other, name).sum().item() == pytest.approx(count * getattr(mean, name).item(), rel=1e-5)
    if reduction == "none":
        assert other.fit.shape == labels.shape and bool((other.total[labels == -100] == 0).all())


@pytest.mark.parametrize(
    "wrong",
    [{"scale": 0.0}, {"cap": -1.0}, {"alpha": -1.0}, {"bias": torch.zeros(3)}, {"tokens": 0}, {"labels": torch.full((3, 7), 99)}],
)  # fmt: skip
def test_wrong_input_is_refused(wrong: dict[str, Any]) -> None:
    hidden, weight, _, labels = batch()
    with pytest.raises(ValueError, match=r"expected|must be|above 0"):
        linear_z_loss(hidden, weight, **{"labels": labels, **wrong})
    with pytest.raises(ValueError, match="reduction"):
        z_loss(hidden @ weight.t(), labels, reduction="median")

"""The output layer keeps its precision, its memory and its answers whatever the caller's modes and types are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import selfnorm as sn
from selfnorm.nn.normalizers import Affine
from selfnorm.nn.output import Output

V, D, N = 300, 24, 50
KINDS = ["shift", "affine", "mlp", "screen", "int8"]


def head_and_contexts(kind: torch.dtype = torch.float32, n: int = N, **link: float) -> tuple[Output, Tensor]:
    rng = torch.Generator().manual_seed(0)
    weight, c = torch.randn(V, D, generator=rng), torch.randn(n, D, generator=rng)
    return Output.from_rows(weight.to(kind), torch.randn(V, generator=rng).to(kind), **link), c


def sizes(kind: str) -> dict[str, int | float | tuple[int, ...]]:
    return {"mlp": {"hidden": (8,), "passes": 1}, "screen": {"rank": 8, "top": 16}, "int8": {"top": 16}}.get(kind, {})


@pytest.mark.parametrize("kind", ["", *KINDS])
@pytest.mark.parametrize("link", [{}, {"cap": 30.0}])
def test_autocast_changes_nothing(kind: str, link: dict[str, float]) -> None:
    head, c = head_and_contexts(n=400, **link)
    g = sn.fit_normalizer(head, c, kind, progress=False, **sizes(kind)) if kind else None
    head = head if g is None else head.with_normalizer(g)
    w = torch.arange(N)

    def answers() -> list[Tensor]:
        x = c[:N]
        found = [head.m(w, x), head.m_shared(w, x), head.m_each(w.expand(N, N), x), head.log_z(x), head.all_m(x)]
        return [*found, *head.target_and_log_z(w, x), *head.log_z_and_entropy(x), *([] if g is None else [g(x)])]

    plain = answers()
    with torch.autocast("cpu", torch.bfloat16):
        for one, two in zip(answers(), plain, strict=True):
            assert one.dtype == torch.float32 and torch.equal(one, two)


class Largest(TorchDispatchMode):
    """The largest tensor that any operation gives."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor):
            self.size = max(self.size, made.numel())
        return made


def test_log_z_behind_a_link_holds_no_more_than_a_block_of_contexts() -> None:
    head, c = head_and_contexts(n=20_000, cap=5.0)
    with torch.no_grad(), Largest() as seen:
        log_z = head.log_z(c)
    assert seen.size <= 4096 * V
    exact = 5 * torch.tanh((c.double() @ head.weight.double().t() + head.bias.double().view(-1)) / 5)
    assert torch.allclose(log_z.double(), exact.logsumexp(1), atol=1e-4)


def test_no_contexts_give_no_numbers() -> None:
    for link in ({}, {"cap": 5.0}):
        head, _ = head_and_contexts(**link)
        none = torch.zeros(0, D)
        assert head.log_z(none).shape == (0,)
        assert [x.shape for x in head.log_z_and_entropy(none)] == [(0,), (0,)]


def test_rows_of_half_precision_take_gradients_to_the_contexts() -> None:
    head, c = head_and_contexts(torch.bfloat16)
    hidden = c.bfloat16().requires_grad_()
    head.log_z(hidden).sum().backward()
    wide = hidden.detach().double().requires_grad_()
    (wide @ head.weight.double().t() + head.bias.double().view(-1)).logsumexp(1).sum().backward()
    assert hidden.grad is not None and wide.grad is not None
    assert torch.allclose(hidden.grad.double(), wide.grad, atol=0.02)


@pytest.mark.parametrize("link", [{}, {"cap": 30.0}])
def test_a_linear_function_is_not_rounded_into_rows_of_half_precision(link: dict[str, float]) -> None:
    head, c = head_and_contexts(torch.bfloat16, **link)
    g = Affine.of(torch.full((D,), 0.0013), torch.tensor(0.31))
    folded, before = g.onto(head), head.weight.clone()
    assert torch.allclose(folded.log_z(c), head.log_z(c) - g(c), atol=1e-5)
    assert torch.equal(head.weight, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("contexts", [torch.float64, torch.float32, torch.bfloat16])
def test_every_calibration_takes_every_float_type(kind: str, rows: torch.dtype, contexts: torch.dtype) -> None:
    head, c = head_and_contexts(rows, n=300)
    g = sn.fit_normalizer(head, c.to(contexts), kind, progress=False, **sizes(kind))
    used, c = head.with_normalizer(g), c.to(contexts)
    w = torch.arange(300) % V
    assert torch.allclose(used.m(w, c), head.m(w, c) - g(c), atol=1e-4)
    assert torch.allclose(used.log_z(c), head.log_z(c) - g(c), atol=1e-4)


def test_scale_and_cap_may_be_any_kind_of_number() -> None:
    linear, c = nn.Linear(D, V), head_and_contexts()[1]
    plain = Output.from_linear(linear, scale=0.5, cap=30.0)
    other = Output.from_linear(linear, scale=torch.tensor(0.5), cap=torch.tensor(30.0, dtype=torch.float64))
    assert torch.equal(plain.log_z(c), other.log_z(c))


def test_gradients_under_autocast_are_those_without() -> None:
    """The backward pass too, and by keywords; a head on meta, which has no autocast, only has shapes."""
    made = Output(V, D)
    with torch.no_grad():
        made.weight.normal_(generator=torch.Generator().manual_seed(1))
    c, found = torch.randn(N, D, generator=torch.Generator().manual_seed(2)), []
    for enabled in (False, True):
        made.weight.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            made.target_and_log_z(w=torch.arange(N), c=c)[1].sum().backward()
        found.append(made.weight.grad)
    assert torch.equal(*found)
    assert made.to("meta").log_z(c.to("meta")).shape == (N,)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_folded_calibration_asks_for_no_gradients(kind: torch.dtype) -> None:
    head, c = head_and_contexts(kind)
    g = sn.fit_normalizer(head, c, "affine", progress=False)
    assert not g.onto(head).m(torch.arange(N), c).requires_grad

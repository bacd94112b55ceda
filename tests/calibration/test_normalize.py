"""Anybody's model: a small GPT in plain torch, calibrated through the public API."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import selfnorm as sn

from .gpt import Gpt, language, trained_gpt

V = 400


@pytest.fixture(scope="module")
def model() -> Gpt:
    return trained_gpt(V)


@torch.no_grad()
def sentences(model: Gpt, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs of the head (N, d) and the words that follow (N,)."""
    ids = language(V, n, torch.Generator().manual_seed(seed))
    return model.hidden(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()


def exact(model: Gpt, c: Tensor) -> Tensor:
    """All logits in float64: a plain oracle."""
    return c.double() @ model.lm_head.weight.detach().double().t()


def test_a_small_gpt_is_self_normalized_in_five_lines(model: Gpt, tmp_path: Path) -> None:
    (contexts, _), (c, w), before = sentences(model, 500, 2), sentences(model, 60, 3), model.wte.weight.detach().clone()
    head = sn.Output.from_linear(model.lm_head)
    g = sn.fit_normalizer(head, contexts, sigma=0.01, progress=False)
    log_p = head.with_normalizer(g).m(w, c)
    sn.save_normalizer(tmp_path / "g.safetensors", g, head)
    again = sn.load_normalizer(tmp_path / "g.safetensors", head)

    logits = exact(model, c)
    truth = logits.log_softmax(1).gather(1, w.unsqueeze(1)).squeeze(1)
    assert logits.logsumexp(1).std() > 0.2  # there is something to calibrate
    rest = (log_p.double() - truth).detach()
    assert rest.std() < 0.015 and rest.mean().abs() < 0.005  # sentences that nothing was fitted on
    assert torch.exp(-log_p.mean()).item() == pytest.approx(torch.exp(-truth.mean()).item(), rel=0.005)
    assert torch.equal(again(c), g(c)) and g.kind_name in ("mlp", "screen", "int8")
    assert head.weight.data_ptr() == model.wte.weight.data_ptr() and torch.equal(model.wte.weight, before)


def test_the_kinds_of_a_small_gpt_in_order(model: Gpt) -> None:
    """A constant leaves the spread, a linear function a part of it, a preview with exact top words next to nothing."""
    (contexts, _), (c, _) = sentences(model, 300, 4), sentences(model, 60, 5)
    head, log_z, left = sn.Output.from_linear(model.lm_head), exact(model, c).logsumexp(1), {}
    for kind, size in {"shift": {}, "affine": {}, "screen": {"rank": 8, "top": 32}, "int8": {"top": 16}}.items():
        g = sn.fit_normalizer(head, contexts, kind, progress=False, **size)
        left[kind] = float((log_z - g(c).double()).std())
    assert left["affine"] < 0.5 * left["shift"]
    assert max(left["screen"], left["int8"]) < 0.05 * left["affine"]


def test_gradients_may_be_switched_off_by_the_caller(model: Gpt) -> None:
    contexts, _ = sentences(model, 60, 6)
    with torch.no_grad():
        g = sn.fit_normalizer(
            sn.Output.from_linear(model.lm_head), contexts, "mlp", passes=2, hidden=(8,), progress=False
        )
    assert g.held_out.sigma_z < 0.5 * g.held_out.sigma_z_before

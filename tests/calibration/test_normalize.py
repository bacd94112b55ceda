"""Anybody's model: a small GPT in plain torch, calibrated through the public API."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import selfnorm as sn
from selfnorm._util.errors import UserError
from selfnorm.calibration import screen

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


def test_inference_mode_is_no_obstacle(model: Gpt) -> None:
    contexts, _ = sentences(model, 60, 6)
    with torch.inference_mode():
        head = sn.Output.from_linear(model.lm_head)
        g = sn.fit_normalizer(head, contexts.clone(), "mlp", passes=2, hidden=(8,), progress=False)
        assert head.with_normalizer(g).m(torch.arange(5), contexts[:5]).shape == (5,)
    assert g.held_out.sigma_z < 0.5 * g.held_out.sigma_z_before


@pytest.mark.parametrize("kind", ["shift", "affine", "mlp"])
def test_a_stored_normalizer_asks_for_no_gradients(model: Gpt, kind: str, tmp_path: Path) -> None:
    contexts, _ = sentences(model, 30, 7)
    head = sn.Output.from_linear(model.lm_head)
    g = sn.fit_normalizer(head, contexts, kind, progress=False, **({"passes": 1} if kind == "mlp" else {}))
    sn.save_normalizer(tmp_path / "g", g, head)
    again = head.with_normalizer(sn.load_normalizer(tmp_path / "g", head))
    assert not again.m(torch.arange(5), contexts[:5]).requires_grad


def test_the_order_of_the_contexts_does_not_decide_which_are_fitted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kinds of text one after the other, more of them than screen takes: it sees both."""
    monkeypatch.setattr(screen, "CONTEXTS", 2000)
    rng = torch.Generator().manual_seed(0)
    weight = torch.randn(500, 32, generator=rng)
    spread = torch.linspace(0.05, 1.5, 32)
    one, two = torch.randn(3000, 32, generator=rng) * spread, torch.randn(3000, 32, generator=rng) * spread.flip(0)
    head = sn.Output.from_rows(weight)
    g = sn.fit_normalizer(head, [one, two], "screen", rank=16, top=8, progress=False)
    mixed = torch.stack([one, two], dim=1).flatten(0, 1)
    shuffled = sn.fit_normalizer(head, mixed, "screen", rank=16, top=8, progress=False)

    def left(of: object, c: Tensor) -> float:
        return float((head.log_z(c) - of(c)).square().mean().sqrt())  # type: ignore[operator]

    for text in (one, two):
        assert left(g, text) < 1.2 * left(shuffled, text)


def test_a_scale_of_the_scores_changes_nothing_that_mlp_learns(model: Gpt) -> None:
    contexts, _ = sentences(model, 120, 8)
    plain = sn.Output.from_rows(model.lm_head.weight)
    scaled = sn.Output.from_rows(model.lm_head.weight * 16, scale=1 / 16)
    left = [
        sn.fit_normalizer(head, contexts, "mlp", passes=4, hidden=(8,), frequent=64, progress=False).held_out.sigma_z
        for head in (plain, scaled)
    ]
    assert left[1] == pytest.approx(left[0], rel=0.02)


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        ("screen", {"rank": 16.0}, "rank = 16.0; a whole number"),
        ("mlp", {"passes": "4"}, "passes = '4'; a number"),
        ("mlp", {"hidden": "128"}, "hidden = .*whole number"),
        ("screen", {"preview": 8}, "preview = 8; a name"),
        ("mlp", {"rows": 5}, "unknown setting rows"),
    ],
)
def test_a_setting_of_the_wrong_kind_is_named(kind: str, given: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        sn.fit_normalizer(sn.Output.from_rows(torch.randn(50, 8)), torch.randn(100, 8), kind, **given)


def test_one_hidden_layer_may_be_a_number_and_counts_an_array() -> None:
    head, c = sn.Output.from_rows(torch.randn(50, 8)), torch.randn(200, 8)
    g = sn.fit_normalizer(head, c, "mlp", hidden=4, frequent=5, passes=1, counts=np.arange(50), progress=False)
    assert [layer.out_features for layer in g.network if hasattr(layer, "out_features")] == [4, 1]

"""Every criterion's optimum on a 7-word problem, against the closed form."""

from __future__ import annotations

import math

import pytest
import torch

from selfnorm.criteria.fit import Draw
from selfnorm.criteria.menu import MENU, Criterion, _penalty
from selfnorm.names import NAMES, settle
from selfnorm.normalizers import Affine
from selfnorm.recipe import CriterionSettings

from .battery import K, P, Q, Stratified, all_m, draw_every_tuple, minimize

FULL = [name for name, line in MENU.items() if line.output == "full"]
EXACT = [n for n in FULL if n not in ("nce_s", "importance", "sampled_softmax", "blackout", "nce_batch")]


def made(name: str, draw: Draw, **settings: float) -> Criterion:
    chosen = settle(CriterionSettings(name=name, k=draw.k, shared="token", gamma=1.0, **settings))
    return Criterion(MENU[name].make(chosen, draw), _penalty(chosen, MENU[name], draw))


def optimum(name: str, **settings: float) -> torch.Tensor:
    draw = draw_every_tuple()
    criterion = made(name, draw, **settings)
    normalizer = Affine(1).double().requires_grad_(False) if MENU[name].normalizer else None
    return all_m(criterion.recover(minimize(criterion, draw.noise.weights(), normalizer=normalizer)))


@pytest.mark.parametrize("name", EXACT)
def test_softmax_of_m_is_p_at_the_optimum(name: str) -> None:
    assert torch.allclose(optimum(name).softmax(0), P, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in EXACT if NAMES[n].pins == "yes"])
def test_a_criterion_that_pins_z_ends_at_log_z_zero(name: str) -> None:
    assert optimum(name).logsumexp(0).abs() < 1e-6


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_andreas_ends_at_log_z_of_one_over_two_alpha(alpha: float) -> None:
    assert float(optimum("andreas", alpha=alpha).logsumexp(0)) == pytest.approx(1 / (2 * alpha), abs=1e-6)


@pytest.mark.parametrize("name", ["importance", "nce_s"])
def test_with_many_noise_words_the_sampled_log_z_is_the_true_one(name: str) -> None:
    k = 700
    draw = Draw(Stratified(Q, k), k, "window")
    draw = Draw(draw.noise, len(draw.noise.words), "window")
    m = all_m(minimize(made(name, draw), torch.ones(1, dtype=torch.float64)))
    assert torch.allclose(m.softmax(0), P, atol=2e-3)
    if name == "nce_s":
        assert m.logsumexp(0).abs() < 2e-3


@pytest.mark.parametrize("name", ["sampled_softmax", "blackout"])
def test_removing_hits_costs_a_small_bias(name: str) -> None:
    """With 2 noise words of 7 the bias is at its worst and still under a percent of probability."""
    gap = (optimum(name).softmax(0) - P).abs().max()
    assert 1e-5 < gap < 1e-2


def test_the_negative_sampling_optimum_is_a_shifted_pmi() -> None:
    draw = draw_every_tuple()
    m = all_m(minimize(made("negative", draw), draw.noise.weights()))
    assert torch.allclose(m + math.log(K) + Q.log(), P.log(), atol=1e-5)


def test_names_and_menu_list_the_same_criteria() -> None:
    assert list(NAMES) == list(MENU)

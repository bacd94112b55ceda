"""Every criterion's optimum on a 7-word problem, against the closed form."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from selfnorm.config.criterion import settle
from selfnorm.config.recipe import CriterionSettings
from selfnorm.criteria.build import Criterion, _fit, _penalty
from selfnorm.criteria.fit import Draw, Drawn
from selfnorm.data.windows import Window
from selfnorm.nn.noise import Noise
from selfnorm.nn.normalizers import Affine
from selfnorm.nn.output import Output
from selfnorm.registry import load
from selfnorm.registry.criteria import CRITERIA

from .battery import EveryTuple, K, P, Q, Stratified, V, all_m, draw_every_tuple, minimize

FULL = [name for name, line in CRITERIA.items() if line.output == "full"]
EXACT = [n for n in FULL if n not in ("nce_s", "importance", "sampled_softmax", "blackout", "nce_batch")]


def made(name: str, draw: Draw, **settings: float) -> Criterion:
    chosen = settle(CriterionSettings(name=name, k=draw.k, shared="token", gamma=1.0, **settings))
    return Criterion(_fit(chosen, CRITERIA[name], draw), _penalty(chosen, CRITERIA[name], draw))


def optimum(name: str, **settings: float) -> torch.Tensor:
    draw = draw_every_tuple()
    criterion = made(name, draw, **settings)
    normalizer = Affine(1).double() if CRITERIA[name].normalizer else None
    if normalizer is not None:  # at a place of its own; a bias and g(c) can move together, so one of them stays
        normalizer.requires_grad_(False).b.fill_(0.8)
    return all_m(criterion.recover(minimize(criterion, draw.noise.weights(), normalizer=normalizer)))


@pytest.mark.parametrize("name", EXACT)
def test_softmax_of_m_is_p_at_the_optimum(name: str) -> None:
    assert torch.allclose(optimum(name).softmax(0), P, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in EXACT if CRITERIA[n].pins == "yes"])
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


class EverySet:
    """Lists every set of words with the probability it has when each word comes in by itself with probability Q."""

    def __init__(self, inclusion: torch.Tensor) -> None:
        self.inclusion, V = inclusion, len(inclusion)
        self.member = torch.tensor(list(itertools.product([False, True], repeat=V)))

    def weights(self) -> torch.Tensor:
        return torch.where(self.member, self.inclusion, 1 - self.inclusion).prod(1)


class Listed(Draw):
    """A draw of one given set: a word that is not in it is written as a repetition of the first that is."""

    def __call__(self, output, c, window, rng):
        B, T = window.targets.shape
        sets = self.noise.sets.member  # (T, V)
        first = sets.int().argmax(1, keepdim=True)
        w = torch.where(sets, torch.arange(V), first).expand(B, T, V)
        return Drawn(w, output.m_each(w, c), self.noise.log_p(w))


@pytest.mark.parametrize("name", ["sampled_softmax", "blackout"])
def test_a_line_up_of_independent_words_has_the_softmax_optimum(name: str) -> None:
    """The empty set is left out: with no other word in the set nothing is learnt from it anyway."""
    k = 3
    inclusion = 1 - (1 - Q) ** k
    noise = Noise(Q.numpy())
    noise._log_p = Q.log()
    noise.sets = EverySet(inclusion)
    noise.sets.member = noise.sets.member[1:]
    draw = Listed(noise, k, "token")
    m = all_m(minimize(made(name, draw), noise.sets.weights()))
    assert torch.allclose(m.softmax(0), P, atol=1e-6)


@pytest.mark.parametrize("name", ["sampled_softmax", "blackout"])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_a_line_up_of_k_draws_is_near_that_optimum_for_every_k(name: str, k: int) -> None:
    """k draws with replacement are not quite independent inclusions; what that costs must not grow with k."""
    draw = Draw(EveryTuple(Q, k), k, "token")
    m = all_m(minimize(made(name, draw), draw.noise.weights()))
    assert (m.softmax(0) - P).abs().max() < 0.02


def test_a_line_up_of_so_many_draws_that_every_word_is_there_is_the_softmax() -> None:
    draw = Draw(Stratified(Q, 7000), 7000, "window")
    m = all_m(minimize(made("sampled_softmax", draw), torch.ones(1, dtype=torch.float64)))
    assert torch.allclose(m.softmax(0), P, atol=1e-4)


def likely_but_seldom_drawn(name: str) -> torch.Tensor:
    """What is learnt where one word has p = 0.9 and q = 0.003, so that three noise words hardly ever hold it."""
    p = torch.full((V,), 0.1 / (V - 1), dtype=torch.float64)
    q = torch.full((V,), (1 - 0.003) / (V - 1), dtype=torch.float64)
    p[2], q[2] = 0.9, 0.003
    draw = Draw(EveryTuple(q, 3), 3, "token")
    return all_m(minimize(made(name, draw), draw.noise.weights(), p=p))


def test_the_sampled_penalty_hardly_moves_a_likely_word_that_is_seldom_drawn() -> None:
    """With Ẑ from the noise words alone it is learnt with probability 0.59; counted itself, with 0.86."""
    assert float(likely_but_seldom_drawn("nce_s").softmax(0)[2]) == pytest.approx(0.9, abs=0.05)


def test_importance_sampling_has_a_minimum_where_words_are_seldom_drawn() -> None:
    """Its bias with three noise words is large, but scores stay finite: from samples alone this one would rise for ever."""
    learnt = likely_but_seldom_drawn("importance")
    assert 0.9 < float(learnt.softmax(0)[2]) < 0.9999


def test_the_negative_sampling_optimum_is_a_shifted_pmi() -> None:
    draw = draw_every_tuple()
    m = all_m(minimize(made("negative", draw), draw.noise.weights()))
    assert torch.allclose(m + math.log(K) + Q.log(), P.log(), atol=1e-5)


@pytest.mark.parametrize("name", [n for n in EXACT if CRITERIA[n].pins == "yes" and not CRITERIA[n].recovers])
def test_a_score_above_zero_is_pulled_back_even_where_the_word_is_certain(name: str) -> None:
    """Where p = 1 the target pulls with all its force; a loss that pushes back with no more lets log Z wander off."""
    draw = draw_every_tuple()
    criterion = made(name, draw)
    output = Output(V, 1, "", Affine(1).double() if CRITERIA[name].normalizer else None).double()
    with torch.no_grad():
        output.bias.copy_(torch.tensor([3.0] + [-30.0] * (V - 1), dtype=torch.float64).view(-1, 1))
    weight = draw.noise.weights()
    window = Window(torch.zeros(1, len(weight), dtype=torch.long), torch.zeros(1, len(weight), dtype=torch.long))
    loss = criterion(output, torch.ones(1, len(weight), 1, dtype=torch.float64), window, torch.Generator())
    (weight * (loss.fit if loss.penalty is None else loss.fit + loss.penalty)).sum().backward()
    assert float(output.bias.grad.to_dense()[0]) > 1e-4


@pytest.mark.parametrize("name", ["linear_bound", "importance"])
def test_a_certain_word_that_is_not_drawn_is_left_where_it_belongs(name: str) -> None:
    """Without its own term the target would be raised at every step in which it is not among the noise words."""
    output = Output(V, 1).double()
    with torch.no_grad():
        output.bias.copy_(torch.tensor([0.0] + [-30.0] * (V - 1), dtype=torch.float64).view(-1, 1))
    window = Window(torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 1, dtype=torch.long))
    never = Stratified(torch.full((V,), 1 / V, dtype=torch.float64), 2 * V)
    never.words = never.words[never.words != 0]
    loss = made(name, Draw(never, len(never.words), "window"))(
        output, torch.ones(1, 1, 1, dtype=torch.float64), window, torch.Generator()
    )
    loss.fit.sum().backward()
    assert output.bias.grad.to_dense().abs().max() < 1e-9


def test_every_registered_fit_can_be_loaded() -> None:
    for name, info in CRITERIA.items():
        assert callable(load(info.fit)), name
        assert info.fit.startswith("selfnorm.criteria."), name

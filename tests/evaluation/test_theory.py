"""The mathematics of the paper as properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from selfnorm.criteria.fit import Draw, Fitted
from selfnorm.criteria.nce import Nce
from selfnorm.criteria.penalty import Exact
from selfnorm.criteria.softmax import Softmax
from selfnorm.data.windows import Window
from selfnorm.evaluation.statistics import block_sums, numbers
from selfnorm.evaluation.theory import epsilon
from selfnorm.nn.noise import Noise
from selfnorm.nn.output import Output

V, D = 9, 3


def output(seed: int = 0, link: str = "") -> Output:
    made = Output(V, D, link).double()
    with torch.no_grad():
        made.weight.copy_(torch.randn(V, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
    return made


def contexts(n: int = 6) -> torch.Tensor:
    return torch.randn(1, n, D, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-4, 4), min_size=V, max_size=V), st.integers(0, 10_000))
def test_log_z_is_bounded_as_in_theorem_1(errors: list[float], seed: int) -> None:
    p = torch.from_numpy(np.random.default_rng(seed).dirichlet(np.ones(V)))
    m = p.log() + torch.tensor(errors, dtype=torch.float64)
    assert abs(float(m.logsumexp(0))) <= float(epsilon(m[None], p.log()[None])) + 1e-9


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_mean_log_z_is_bounded_as_in_theorem_2(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = torch.from_numpy(rng.dirichlet(np.ones(V), size=5))
    p_c = torch.from_numpy(rng.dirichlet(np.ones(5)))
    m = p.log() + torch.from_numpy(rng.normal(size=(5, V)))
    bound = (p_c.log() + epsilon(m, p.log())).logsumexp(0)
    assert abs(float((p_c * m.logsumexp(1)).sum())) <= float(bound) + 1e-9


def test_nce_gradient_approaches_the_maximum_likelihood_gradient_as_k_grows() -> None:
    """At log Z = 0: the difference shrinks about like 1/k (Mnih & Teh 2012)."""
    q, gaps = np.full(V, 1 / V), []
    c, w = contexts(1), torch.tensor([[3]])
    window = Window(w, w)
    for k in (9, 90, 900):
        made = output()
        with torch.no_grad():
            made.bias -= made.log_z(c).view(())
        noise = Noise(q)
        noise.sample = lambda shape, rng, k=k: torch.arange(V).repeat(k // V)  # exactly k·q of each word
        noise._log_p = noise._log_p.double()
        Nce(Draw(noise, k))(made, c, window, torch.Generator()).loss.sum().backward()
        nce = made.weight.grad.to_dense()
        made.zero_grad()
        Softmax()(made, c, window, torch.Generator()).loss.sum().backward()
        gaps.append(float((nce - made.weight.grad).norm()))
    assert gaps[0] > 5 * gaps[1] > 25 * gaps[2]


def test_softmax_ignores_a_constant_added_to_every_score_and_nce_does_not() -> None:
    c, w = contexts(), torch.tensor([[0, 1, 2, 3, 4, 5]])
    window, made = Window(w, w), output()
    moved = made.minus(torch.zeros(D, dtype=torch.float64), torch.tensor(0.5, dtype=torch.float64))
    draw = Draw(Noise(np.ones(V)), 4)

    def loss(fit, o):
        return fit(o, c, window, torch.Generator().manual_seed(0)).loss.detach().sum()

    assert float(loss(Softmax(), made)) == pytest.approx(float(loss(Softmax(), moved)))
    assert abs(float(loss(Nce(draw), made)) - float(loss(Nce(draw), moved))) > 0.01


def test_log_u_perplexity_is_log_perplexity_minus_mu_z() -> None:
    rng = np.random.default_rng(0)
    log_z, nll = rng.normal(0.3, 1, 5000), rng.exponential(4, 5000)
    found = numbers(block_sums(log_z, nll, rng.random(5000)))
    m = log_z - nll
    assert found["u_perplexity"] == pytest.approx(math.exp(-m.mean()), rel=1e-9)
    assert math.log(found["u_perplexity"]) == pytest.approx(math.log(found["perplexity"]) - found["mu_z"], abs=1e-9)


@pytest.mark.parametrize("subset", ["windows", "contexts"])
def test_the_penalty_on_a_share_of_contexts_is_unbiased_in_gamma(subset: str) -> None:
    made, c = output(), contexts(20)
    window = Window(torch.zeros(1, 20, dtype=torch.long), torch.zeros(1, 20, dtype=torch.long))
    rng = torch.Generator().manual_seed(0)
    nothing = Fitted(torch.zeros(1, 20))
    made.requires_grad_(False)
    whole = float(Exact(2.0)(made, c, window, nothing, rng).sum())
    some = [float(Exact(2.0, 0.1, subset)(made, c, window, nothing, rng).sum()) for _ in range(4000)]
    assert np.mean(some) == pytest.approx(whole, abs=4 * np.std(some) / math.sqrt(len(some)))


@pytest.mark.parametrize("link", ["", "squash"])
def test_folding_the_shift_leaves_probabilities_unchanged(link: str) -> None:
    made, c = output(link=link), contexts()[0]
    a, b = (
        torch.randn(D, generator=torch.Generator().manual_seed(1), dtype=torch.float64),
        torch.tensor(0.4, dtype=torch.float64),
    )
    folded = made.minus(a, b)
    assert torch.allclose(folded.all_m(c).softmax(1), made.all_m(c).softmax(1))
    assert torch.allclose(folded.log_z(c), made.log_z(c) - (c @ a + b))
    twice = folded.minus(a, b)
    assert torch.allclose(twice.log_z(c), made.log_z(c) - 2 * (c @ a + b))


def test_the_squashed_log_z_has_the_papers_floor() -> None:
    """10 tanh(m/5) >= -10, so log Z >= log V - 10: 0.413 for WikiText-2's 33,278 words."""
    made = Output(33_278, 2, "squash")
    with torch.no_grad():
        made.bias.fill_(-100.0)
    assert float(made.log_z(torch.zeros(1, 2)).detach()) == pytest.approx(0.413, abs=5e-4)


def test_a_calibration_adds_to_a_normalizer_that_was_trained_with_the_model() -> None:
    from selfnorm.nn.normalizers import Affine

    made, c = output(), contexts()[0]
    first, second = Affine(D).double(), Affine(D).double()
    with torch.no_grad():
        first.b.fill_(3.0)
        second.b.fill_(0.5)
    both = made.with_normalizer(first).with_normalizer(second)
    assert torch.allclose(both.log_z(c), made.log_z(c) - 3.5)

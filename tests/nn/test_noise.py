"""Noise draws what it says it draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from selfnorm._util.errors import UserError
from selfnorm.nn.noise import BigramNoise, Noise, _alias, make_noise


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=40))
def test_alias_tables_hold_exactly_the_probabilities(weights: list[float]) -> None:
    q = np.asarray(weights) / sum(weights)
    threshold, alias = _alias(q)
    held = np.zeros(len(q))
    for slot in range(len(q)):
        held[slot] += threshold[slot] / len(q)
        held[alias[slot]] += (1 - threshold[slot]) / len(q)
    assert np.allclose(held, q, atol=1e-9)


def test_samples_follow_log_p_and_the_same_rng_repeats_them() -> None:
    noise = Noise(np.array([5.0, 3.0, 1.0, 1.0]))
    drawn = noise.sample((200_000,), torch.Generator().manual_seed(1))
    again = noise.sample((200_000,), torch.Generator().manual_seed(1))
    share = torch.bincount(drawn, minlength=4) / len(drawn)
    assert torch.equal(drawn, again)
    assert torch.allclose(share, noise.log_p(torch.arange(4)).exp(), atol=0.005)


def test_unseen_words_can_be_targets() -> None:
    noise = make_noise("unigram", np.array([10, 0, 5]))
    assert torch.isfinite(noise.log_p(torch.tensor([1]))).all()


@pytest.mark.parametrize("kind", ["unigram", "uniform", "log_uniform"])
def test_every_kind_sums_to_one(kind: str) -> None:
    noise = make_noise(kind, np.array([1, 9, 3]), power=0.75)
    assert float(noise.log_p(torch.arange(3)).exp().sum()) == pytest.approx(1, abs=1e-6)


def test_log_uniform_gives_the_most_frequent_word_most() -> None:
    noise = make_noise("log_uniform", np.array([1, 9, 3]))
    assert noise.log_p(torch.arange(3)).argmax() == 1


def test_bigram_noise_is_normalized_and_follows_its_own_probabilities() -> None:
    ids = np.array([0, 1, 0, 2, 0, 1, 2, 2, 1, 0])
    noise = BigramNoise(ids, Noise(np.array([1.0, 1.0, 1.0, 1.0])))  # word 3 never occurs
    for previous in range(4):
        p = noise.log_p_after(torch.arange(4), torch.tensor(previous)).exp()
        assert float(p.sum()) == pytest.approx(1, abs=1e-5)
        drawn = noise.sample_after(torch.tensor([previous]), 100_000, torch.Generator().manual_seed(0)).view(-1)
        assert torch.allclose(torch.bincount(drawn, minlength=4) / len(drawn), p, atol=0.01)


def test_an_unknown_kind_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match='Did you mean "unigram"'):
        make_noise("unigramm", np.array([1, 2, 3]))

"""Output layers that are normalized by construction: one word's log p is that of the whole distribution."""

from __future__ import annotations

import pytest
import torch

from selfnorm.nn.hierarchical import KINDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("V", [3, 5, 10, 12, 17, 101])
def test_a_target_is_given_what_the_distribution_says(kind: str, V: int) -> None:
    rng = torch.Generator().manual_seed(V)
    layer = KINDS[kind](V, 6).double()
    for weight in layer.parameters():
        weight.data.uniform_(-1, 1, generator=rng)
    c, w = torch.randn(40, 6, generator=rng, dtype=torch.float64), torch.randint(V, (40,), generator=rng)
    every = layer.all_m(c)
    assert torch.allclose(every.logsumexp(1), torch.zeros(40, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(layer.log_p(w, c), every.gather(1, w.unsqueeze(1)).squeeze(1), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_no_targets_have_no_scores(kind: str) -> None:
    layer = KINDS[kind](10, 4)
    assert layer.m(torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, 3, 4)).shape == (0, 3)

"""Recurrent encoders: one word at a time gives what whole windows give."""

from __future__ import annotations

import pytest
import torch

from selfnorm.config.recipe import Model
from selfnorm.nn.encoders import State, join, make_encoder, pick


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_single_steps_without_gradients_give_the_layers_numbers(name: str) -> None:
    encoder = make_encoder(Model(encoder=name, d=7, layers=2, dropout=0.0), 20)
    encoder.initialize(0.4, torch.Generator().manual_seed(0))  # type: ignore[operator]
    tokens = torch.randint(20, (3, 6), generator=torch.Generator().manual_seed(1))
    whole, last = encoder(tokens, None)
    state: State | None = None
    steps = []
    with torch.no_grad():
        for t in range(6):
            c, state = encoder(tokens[:, t : t + 1], state)
            steps.append(c)
    assert torch.allclose(torch.cat(steps, 1), whole, atol=1e-6)
    assert state is not None
    for ours, theirs in zip(state, last, strict=True):
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name", ["lstm", "gru", "transformer"])
def test_streams_of_different_length_are_joined(name: str) -> None:
    encoder = make_encoder(Model(encoder=name, d=8, layers=2, dropout=0.0, heads=2, memory=5), 20)
    encoder.initialize(0.4, torch.Generator().manual_seed(0))  # type: ignore[operator]
    with torch.no_grad():
        _, short = encoder(torch.tensor([[1, 2]]), None)
        _, long = encoder(torch.tensor([[3, 4, 5, 6]]), None)
        both = join([short, None, long])
        assert both is not None and join([None, None]) is None
        c, after = encoder(torch.tensor([[7], [7], [7]]), both)
        for row, before in enumerate((short, None, long)):
            alone, _ = encoder(torch.tensor([[7]]), before)
            assert torch.allclose(c[row], alone[0], atol=1e-6)
        assert len(pick(after, torch.tensor([1]))) == 2

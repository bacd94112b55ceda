"""The sparse step against torch's dense SGD and clipping."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from selfnorm.training.sgd import step


@pytest.mark.parametrize("clip", [0.5, 1e9])
def test_a_sparse_step_is_the_dense_one_with_duplicates_counted_right(clip: float) -> None:
    rng = torch.Generator().manual_seed(0)
    sparse = nn.Parameter(torch.randn(20, 3, generator=rng))
    dense, other = nn.Parameter(sparse.detach().clone()), nn.Parameter(torch.randn(3, generator=rng))
    twin = nn.Parameter(other.detach().clone())
    ids = torch.tensor([4, 4, 7, 1, 4])  # one row three times
    (F.embedding(ids, sparse, sparse=True) @ other).square().sum().backward()
    (F.embedding(ids, dense) @ twin).square().sum().backward()
    expected = torch.nn.utils.clip_grad_norm_([dense, twin], clip)
    torch.optim.SGD([dense, twin], lr=0.3).step()
    norm = step([sparse, other], 0.3, clip)
    assert norm == pytest.approx(float(expected), rel=1e-5)
    assert torch.allclose(sparse, dense, atol=1e-6) and torch.allclose(other, twin, atol=1e-6)
    assert sparse.grad is None


def test_rows_without_a_gradient_keep_their_bits() -> None:
    table = nn.Parameter(torch.randn(50, 2, generator=torch.Generator().manual_seed(0)))
    before = table.detach().clone()
    F.embedding(torch.tensor([3, 9]), table, sparse=True).sum().backward()
    step([table], 1.0, 5.0)
    changed = (table != before).any(1).nonzero().view(-1).tolist()
    assert changed == [3, 9]

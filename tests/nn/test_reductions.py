"""The largest scores, their exact values and the sum over both: the same by our C code and by torch."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from selfnorm.nn import reductions

COMPILER = shutil.which(shlex.split(os.environ.get("CC", "cc"))[0]) is not None


@pytest.fixture(params=["c", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "torch":
        monkeypatch.setattr(reductions, "library", lambda: None)
    elif not COMPILER or os.environ.get("SELFNORM_NATIVE") == "0":
        pytest.skip("needs a C compiler")
    else:
        assert reductions.library() is not None
    yield request.param


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


SIZES = [
    (1, 1, 1),
    (3, 7, 7),
    (2, 31, 5),
    (5, 32, 1),
    (4, 100, 64),
    (2, 5000, 64),
    (3, 20_000, 2048),
    (2, 20_000, 20_000),
]


@pytest.mark.parametrize("n, V, k", SIZES)
def test_the_words_are_those_of_the_largest_scores(way: str, n: int, V: int, k: int) -> None:
    for m in (random(n, V), random(n, V).sort(1).values, random(n, V).sort(1, descending=True).values):
        words = reductions.top_words(m, k)
        assert torch.equal(words.sort(1).values, m.topk(k, 1).indices.sort(1).values)


@pytest.mark.parametrize("V", [40, 9000])
def test_equal_scores_are_taken_once_each(way: str, V: int) -> None:
    m = random(3, V).mul(2).round()  # a dozen different values
    for k in (1, V // 3, V):
        words = reductions.top_words(m, k)
        assert all(len(set(row)) == k for row in words.tolist())
        assert torch.equal(m.gather(1, words).sort(1).values, m.topk(k, 1).values.sort(1).values)


@pytest.mark.parametrize("V", [50, 6000])
def test_what_is_not_finite_does_not_disturb_the_others(way: str, V: int) -> None:
    m = random(3, V)
    m[0, 3], m[1, 5], m[2, ::2] = torch.inf, -torch.inf, -torch.inf
    for k in (1, 20, V):
        words = reductions.top_words(m, k)
        assert torch.equal(m.gather(1, words).sort(1).values, m.topk(k, 1).values.sort(1).values)
        assert all(len(set(row)) == k for row in words.tolist())


@pytest.mark.parametrize("many", [1, 30, 100])
def test_words_are_different_where_scores_are_not_numbers(way: str, many: int) -> None:
    m = random(2, 100)
    m[:, :many] = torch.nan
    words = reductions.top_words(m, 80)
    assert all(len(set(row)) == 80 and min(row) >= 0 and max(row) < 100 for row in words.tolist())


@pytest.mark.parametrize("n, V, k", SIZES)
def test_the_sum_is_that_of_float64(way: str, n: int, V: int, k: int) -> None:
    for scale in (1.0, 30.0):
        m, exact = scale * random(n, V), scale * random(n, k, seed=1)
        words = m.topk(k, 1).indices
        expected = m.double().scatter(1, words, exact.double()).logsumexp(1)
        assert torch.allclose(
            reductions.log_sum_replaced(m.clone(), words, exact).double(), expected, atol=2e-5, rtol=1e-6
        )


@pytest.mark.parametrize("V", [5, 200])
def test_the_sum_hides_nothing_that_is_not_finite(way: str, V: int) -> None:
    m = random(5, V)
    m[0, 1], m[1], m[2, 2], m[3, 4] = torch.inf, -torch.inf, torch.nan, -torch.inf
    m[4, 0], m[4, 1] = torch.nan, torch.inf
    words = torch.full((5, 1), V - 1)
    found = reductions.log_sum_replaced(m.clone(), words, m.gather(1, words))
    assert found[0] == torch.inf and found[1] == -torch.inf and found[2].isnan() and found[4].isnan()
    assert torch.allclose(found[3], m[3].logsumexp(0))


@settings(max_examples=50, deadline=None)
@given(n=st.integers(0, 6), V=st.integers(1, 80), d=st.integers(1, 70), data=st.data())
def test_scores_of_own_words_are_those_of_all_words(n: int, V: int, d: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, V))
    rows, bias, c = random(V, d), random(V, seed=1), random(n, d, seed=2)
    words = torch.randint(V, (n, k), generator=torch.Generator().manual_seed(3))
    for given_c in (c, random(d, n, seed=2).t()):
        expected = (given_c.double() @ rows.double().t() + bias.double()).gather(1, words)
        assert torch.allclose(reductions.row_scores(rows, bias, given_c, words).double(), expected, atol=1e-4)


def test_rows_of_any_kind_are_taken(way: str) -> None:
    rows, bias, c = random(50, 24), random(50, 1, seed=1), random(4, 24, seed=2)
    words = torch.randint(50, (4, 9), generator=torch.Generator().manual_seed(3))
    for kind in (rows, rows.bfloat16(), rows.double(), random(24, 50).t()):
        b = bias.to(kind.dtype)
        expected = (c.double() @ kind.double().t() + b.double().t()).gather(1, words)
        found = reductions.row_scores(kind, b, c, words)
        assert found.dtype == torch.float32 and torch.allclose(found.double(), expected, atol=1e-4)


def test_whole_sums_are_scaled_by_context_and_word(way: str) -> None:
    sums = torch.randint(-(10**6), 10**6, (3, 70), dtype=torch.int32, generator=torch.Generator().manual_seed(0))
    scale, row_scale, offset = random(3), random(70, seed=1), random(70, seed=2)
    expected = sums.double() * scale.double().unsqueeze(1) * row_scale.double() + offset.double()
    for kind in (sums, sums.float()):
        assert torch.allclose(reductions.scaled(kind.clone(), scale, row_scale, offset).double(), expected, rtol=1e-5)


@pytest.mark.parametrize("n, V, k", SIZES)
def test_log_z_and_the_mean_score_are_those_of_float64(way: str, n: int, V: int, k: int) -> None:
    for scale in (1.0, 30.0):
        m = scale * random(n, V)
        p = m.double().softmax(1)
        log_z, mean = reductions.log_sum_and_mean(m.clone())
        for found in (log_z, reductions.log_sum(m.clone())):
            assert torch.allclose(found.double(), m.double().logsumexp(1), atol=2e-5, rtol=1e-6)
        assert torch.allclose(mean.double(), (p * m.double()).sum(1), atol=1e-4, rtol=1e-5)


def test_sums_over_many_words_keep_their_digits(way: str) -> None:
    m = random(1, 1_000_000) / 100
    assert abs(float(reductions.log_sum(m.clone())) - float(m.double().logsumexp(1))) < 3e-6


def test_impossible_words_leave_the_mean_score_as_it_is(way: str) -> None:
    m = random(3, 77)
    m[:2, ::3] = -torch.inf
    m[2] = -torch.inf
    possible = m[:2][m[:2] > -torch.inf].view(2, -1)
    log_z, mean = reductions.log_sum_and_mean(m.clone())
    assert torch.allclose(log_z[:2], possible.logsumexp(1))
    assert torch.allclose(mean[:2], (possible.softmax(1) * possible).sum(1), atol=1e-5)
    assert log_z[2] == reductions.log_sum(m)[2] == -torch.inf and mean[2] == 0


def test_gradients_are_not_lost() -> None:
    m = random(3, 40).requires_grad_()
    log_z, mean = reductions.log_sum_and_mean(m)
    (log_z.sum() + mean.sum() + reductions.log_sum(m).sum()).backward()
    assert m.grad is not None and torch.isfinite(m.grad).all()


def sums() -> list[Tensor]:
    """All reductions of the same 50 contexts."""
    make = {"dtype": torch.float32, "device": "cpu"}
    m, rows, bias, c = (random(*size).to(**make) for size in ((50, 3000), (3000, 16), (3000,), (50, 16)))
    log_z = m.new_empty(50)

    def finish(some: slice) -> None:
        words = reductions.top_words(m[some], 40)
        exact = reductions.row_scores(rows, bias, c[some], words)
        log_z[some] = reductions.log_sum_replaced(m[some].clone(), words, exact)

    reductions.in_threads(finish, m)
    whole = m.mul(100).to(torch.int32)
    return [log_z, *reductions.log_sum_and_mean(m.clone()), reductions.scaled(whole, m[:, 0].contiguous(), bias, bias)]


@pytest.mark.parametrize("count", [2, 3, 64])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_threads_change_nothing(count: int, mode: type, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = sums()
    monkeypatch.setattr(torch, "get_num_threads", lambda: count)
    with mode():
        assert all(torch.equal(one, two) for one, two in zip(sums(), alone, strict=True))


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_torchs_default_type_does_not_matter(kind: torch.dtype) -> None:
    before = sums()
    torch.set_default_dtype(kind)
    try:
        tensors = [random(4, 300).float() for _ in range(2)]
        words = reductions.top_words(tensors[0], 9)
        found = reductions.log_sum_replaced(tensors[0], words, tensors[1][:, :9].contiguous())
        assert words.dtype == torch.int64 and found.dtype == torch.float32 and torch.isfinite(found).all()
        assert reductions.log_sum(tensors[1]).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(one, two) for one, two in zip(sums(), before, strict=True))


def test_what_does_not_fit_is_refused_before_c_reads_it() -> None:
    m, rows, bias, c = random(2, 50), random(50, 8), random(50), random(2, 8)
    words = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises((ValueError, RuntimeError)):
        reductions.top_words(m, 51)
    for wrong in ((rows, bias, random(2, 9), words), (rows, bias[:1], c, words), (rows, bias, c, words.int())):
        with pytest.raises((ValueError, RuntimeError, IndexError)):
            reductions.row_scores(*wrong)
    with pytest.raises((ValueError, RuntimeError)):
        reductions.log_sum_replaced(m, words, random(2, 4))
    with pytest.raises((ValueError, RuntimeError)):
        reductions.scaled(torch.zeros(2, 50, dtype=torch.int32), random(2), random(1), random(1))

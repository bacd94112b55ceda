"""screen and int8: exact where the preview keeps everything, near log Z where it does not, and the same by any kernel."""

from __future__ import annotations

import pytest
import torch

import selfnorm as sn
from selfnorm.calibration.base import Budget
from selfnorm.calibration.screen import Screen, Screening, directions
from selfnorm.calibration.top_exact import exact_scores
from selfnorm.nn import int8
from selfnorm.nn.int8 import Int8Rows

V, D = 3000, 24


@pytest.fixture(scope="module")
def head() -> sn.Output:
    """Rows with a decaying spectrum and Zipfian biases, as language models have them."""
    rng = torch.Generator().manual_seed(0)
    spectrum = torch.arange(1, D + 1) ** -0.7
    weight = torch.randn(V, D, generator=rng) * spectrum * 2.5
    return sn.Output.from_rows(weight, -torch.arange(1, V + 1).float().log())


def contexts(n: int, seed: int = 1, scale: float = 1.0) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return (
        scale
        * torch.randn(n, D, generator=rng)
        @ torch.randn(D, D, generator=torch.Generator().manual_seed(9))
        / D**0.5
    )


def left(head: sn.Output, g: torch.nn.Module, c: torch.Tensor) -> torch.Tensor:
    exact = torch.addmm(head.bias.view(-1).double(), c.double(), head.weight.double().t())  # a plain oracle
    return exact.logsumexp(1) - g(c).double()


def test_a_preview_of_full_rank_is_exact(head: sn.Output) -> None:
    g = sn.fit_normalizer(head, contexts(2000), "screen", rank=D, top=1, preview="float32", progress=False)
    assert float(left(head, g, contexts(300, 2)).abs().max()) < 1e-4


def test_all_words_exact_is_exact_whatever_the_preview(head: sn.Output) -> None:
    for kind, how in (("screen", {"rank": 2}), ("int8", {})):
        g = sn.fit_normalizer(head, contexts(500), kind, top=V, progress=False, **how)
        assert float(left(head, g, contexts(50, 2)).abs().max()) < 1e-4


@pytest.mark.parametrize("preview", ["float32", "bf16", "int8"])
def test_more_directions_and_more_exact_words_leave_less(head: sn.Output, preview: str) -> None:
    c, kept = contexts(400, 3), {}
    for rank, top in ((4, 16), (12, 16), (12, 256)):
        g = sn.fit_normalizer(head, contexts(4000), "screen", rank=rank, top=top, preview=preview, progress=False)
        kept[rank, top] = float(left(head, g, c).std())
    assert kept[12, 256] < kept[12, 16] < kept[4, 16] and kept[12, 256] < 0.02


def test_contexts_larger_than_those_fitted_on_are_followed(head: sn.Output) -> None:
    """The dropped part's size is measured for each context, so the mean stays near 0 where contexts are twice as long."""
    g = sn.fit_normalizer(head, contexts(4000), "screen", rank=12, top=64, preview="float32", progress=False)
    far = left(head, g, contexts(500, 5, scale=2.0))
    constant = Screen(head, {**g.state_dict(), "project": g.project.clone()})
    constant.project[:, 12:] = 0
    constant.offset += g.preview[:, 12]  # s(c) = 1 for every context
    other = left(head, constant, contexts(500, 5, scale=2.0))
    assert far.abs().mean() < 0.75 * other.abs().mean() and far.std() < 0.9 * other.std()


def test_the_dropped_part_is_measured_by_few_projections() -> None:
    """Of 64 dropped directions 16 random projections are kept; an earlier fit that kept them all says nearly the same."""
    d, rank, words = 96, 32, 400
    rng = torch.Generator().manual_seed(3)
    wide = sn.Output.from_rows(torch.randn(words, d, generator=rng) * torch.arange(1, d + 1) ** -0.3)
    c = torch.randn(4000, d, generator=rng) / 3
    g = sn.fit_normalizer(wide, c, "screen", rank=rank, top=16, preview="float32", progress=False)
    assert g.project.shape == (d, rank + 16)
    s = directions(c, g.mean, g.project, rank)[:, rank]
    assert 0.8 < float(s.mean()) < 1.25
    assert g.multiply_adds() == Screening().cost(Budget(rank=rank, top=16, preview="float32"), words, d)
    values, vectors = torch.linalg.eigh(c.T.cov().double())
    whitened = vectors * values.rsqrt()  # an earlier file: as many columns as directions
    basis = torch.linalg.svd(wide.weight.double() @ vectors * values.sqrt(), full_matrices=False).Vh.T
    every = (whitened @ basis).float()
    every[:, rank:] /= (d - rank) ** 0.5
    whole = Screen(wide, {**g.state_dict(), "project": every})
    assert whole.preview_scores(c[:5]).shape == (5, words)
    assert abs(float(directions(c, g.mean, every, rank)[:, rank].mean()) - 1) < 0.01


def test_int8_of_all_rows(head: sn.Output) -> None:
    g = sn.fit_normalizer(head, contexts(4000), "int8", top=64, progress=False)
    rest = left(head, g, contexts(400, 4))
    assert float(rest.std()) < 0.02 and abs(float(rest.mean())) < 0.01
    assert g.multiply_adds() == V * D / 4 + 64 * D


def test_integer_products_are_exact_by_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = torch.Generator().manual_seed(0)
    rows = torch.randint(-63, 64, (500, 65), generator=rng).to(torch.int8)
    c = torch.randint(-127, 128, (40, 65), generator=rng)
    expected = (c.long() @ rows.long().t()).float()
    assert torch.equal(Int8Rows(rows, torch.ones(500)).product(c.float()), expected)
    monkeypatch.setattr(int8, "_libraries", lambda: (None, None))
    assert torch.equal(Int8Rows(rows, torch.ones(500)).product(c.float()), expected)
    extreme = torch.full((1, 65), 127.0), torch.full((500, 65), 63, dtype=torch.int8)
    assert torch.equal(Int8Rows(extreme[1], torch.ones(500)).product(extreme[0]), torch.full((1, 500), 127.0 * 63 * 65))


def test_exact_scores_are_those_of_the_head(head: sn.Output) -> None:
    c, words = contexts(7, 6), torch.randint(V, (7, 5), generator=torch.Generator().manual_seed(2))
    assert torch.allclose(exact_scores(head, c, words), head.m_each(words, c), atol=1e-5)


def test_shapes_empty_batches_and_links() -> None:
    rng = torch.Generator().manual_seed(0)
    head = sn.Output.from_rows(torch.randn(200, 8, generator=rng), scale=0.5, cap=6.0)
    for kind in ("screen", "int8"):
        g = sn.fit_normalizer(head, torch.randn(400, 8, generator=rng), kind, rank=8, top=200, progress=False)
        c = torch.randn(2, 3, 8, generator=rng)
        assert torch.allclose(g(c), head.log_z(c), atol=1e-4) and g(c[:0]).shape == (0, 3)


def test_they_are_stored_with_a_run_and_used_by_every_command(tmp_path_factory: pytest.TempPathFactory) -> None:
    from selfnorm.cli import main

    from ..conftest import write_text

    place = tmp_path_factory.mktemp("screen")
    text = write_text(place / "t.txt", lines=400)
    run = sn.train(place / "r", text=text, criterion="softmax", d=8, epochs=1, batch=4, steps=5, progress=False)
    raw = run.measure("test", "none")
    for kind, how in (("screen", {"rank": 4, "top": 4}), ("int8", {"top": 2})):
        facts = run.calibrate(kind, **how)
        found = run.measure("test")
        assert found.sigma_z < 0.5 * raw.sigma_z and found.perplexity == pytest.approx(raw.perplexity, rel=1e-4)
        assert facts["multiply_adds"] > 0 and f"calibration:{kind}" in found.signature
        assert main(["score", str(run.folder), str(text)]) == 0
        assert sn.load(run.folder).score("the cat saw a dog") < 0


def test_a_calibration_is_chosen_by_cost_or_by_what_it_leaves(head: sn.Output) -> None:
    g = sn.fit_normalizer(head, contexts(3000), cost=0.2, progress=False, passes=2)
    best = min(one.left.rms for one in g.frontier)
    assert all(one.cost <= 0.2 for one in g.frontier) and len(g.frontier) > 3
    assert g.multiply_adds() <= 0.2 * V * D and g.held_out.sigma_z < 1.5 * best
    cheap = sn.fit_normalizer(head, contexts(3000), sigma=5.0, progress=False)
    assert cheap.kind_name == "affine" and len(cheap.frontier) == 1
    with pytest.raises(sn.UserError, match="Nothing leaves at most"):
        sn.fit_normalizer(head, contexts(300), sigma=1e-9, progress=False, passes=0.1)
    with pytest.raises(sn.UserError, match="choose a kind"):
        sn.fit_normalizer(head, contexts(300), "mlp", cost=0.1)


@pytest.mark.parametrize("kind", ["affine", "mlp", "screen", "int8"])
def test_the_cost_foretold_is_the_cost_of_what_is_fitted(head: sn.Output, kind: str) -> None:
    from selfnorm.calibration.base import Budget
    from selfnorm.registry import load
    from selfnorm.registry.calibrations import CALIBRATIONS

    g = sn.fit_normalizer(head, contexts(300), kind, rank=10, top=32, passes=0.1, progress=False)
    assert load(CALIBRATIONS[kind].make)().cost(Budget(rank=10, top=32), V, D) == g.multiply_adds()


@pytest.mark.parametrize("scale", [0.125, 4.0])
def test_a_scale_in_the_link_changes_nothing_where_the_scores_are_the_same(head: sn.Output, scale: float) -> None:
    same = sn.Output.from_rows(head.weight / scale, head.bias.view(-1) / scale, scale=scale)
    c, how = contexts(300, 8), {"rank": 12, "top": 32, "preview": "float32", "progress": False}
    one, two = (sn.fit_normalizer(h, contexts(3000), "screen", **how)(c) for h in (head, same))
    assert torch.allclose(one, two, atol=1e-3)


def test_gradients_copies_and_half_precision_do_not_matter(head: sn.Output) -> None:
    import copy

    c, w = contexts(20, 8), torch.arange(20)
    for kind in ("affine", "mlp", "screen", "int8"):
        g = sn.fit_normalizer(head, contexts(500), kind, rank=8, top=16, passes=1, progress=False)
        scores = head.with_normalizer(g).m(w, c.clone().requires_grad_())
        assert torch.allclose(copy.deepcopy(head.with_normalizer(g)).m(w, c), scores.detach(), atol=1e-5)
    half = sn.Output.from_rows(head.weight.bfloat16(), head.bias.view(-1).bfloat16())
    for kind in ("shift", "affine", "int8"):
        g = sn.fit_normalizer(half, contexts(500), kind, top=16, progress=False)
        got = half.with_normalizer(g).m(w, c.bfloat16())
        assert got.dtype == torch.float32 and torch.isfinite(got).all()
        assert torch.isfinite(half.m_shared(w, c)).all() and torch.isfinite(g.onto(half).log_z(c)).all()


def test_contexts_without_variation_and_heads_with_a_normalizer_are_refused_or_exact(head: sn.Output) -> None:
    g = sn.fit_normalizer(head, contexts(500), "shift", progress=False)
    with pytest.raises(sn.UserError, match="has a normalizer already"):
        sn.fit_normalizer(head.with_normalizer(g), contexts(500), "shift")
    constant = sn.fit_normalizer(head, torch.ones(100, D), "screen", rank=4, top=16, preview="float32", progress=False)
    assert float(left(head, constant, torch.ones(3, D)).abs().max()) < 1e-3


@pytest.mark.parametrize("kind", ["float32", "bf16", "int8"])
def test_an_estimate_is_the_same_in_every_mode_of_torch(
    kind: str, head: sn.Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = sn.fit_normalizer(head, contexts(400), "screen", rank=12, top=50, preview=kind, progress=False)
    c = contexts(64, seed=5)
    expected = g(c)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    with torch.inference_mode():
        assert torch.equal(g(c), expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.allclose(g(c), expected, atol=0.1)


def test_more_exact_words_than_there_are_are_refused(head: sn.Output) -> None:
    g = sn.fit_normalizer(head, contexts(400), "int8", progress=False)
    tensors = dict(g.state_dict())
    for top in (0, V + 1):
        with pytest.raises(ValueError, match=f"{top} exact words of {V}"):
            type(g)(head, {**tensors, "top": torch.tensor(top)})
    with pytest.raises(ValueError, match="another head"):
        type(g)(head, {**tensors, "row_scale": torch.ones(1)})

"""One battery over the whole menu: gradients, determinism, order, constants, and steps free of V."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from selfnorm._util.errors import UserError
from selfnorm.config.criterion import pins
from selfnorm.config.recipe import CriterionSettings, Model
from selfnorm.criteria.build import make_criterion
from selfnorm.data.windows import Window
from selfnorm.nn.model import build
from selfnorm.registry.criteria import CRITERIA
from selfnorm.training.sgd import step

V, B, T, D = 23, 3, 4, 5
COUNTS = np.arange(V, 0, -1)
SAMPLED = [n for n in CRITERIA if CRITERIA[n].draws or CRITERIA[n].from_batch]


def problem(
    name: str,
    shared: str = "window",
    V: int = V,
    noise: str = "unigram",
    dtype: torch.dtype = torch.float64,
    subset: str = "contexts",
    gamma: float = -1.0,
):
    rng = torch.Generator().manual_seed(5)
    ids = np.random.default_rng(0).integers(V, size=500)
    settings = CriterionSettings(name=name, k=6, shared=shared, noise=noise, subset=subset, gamma=gamma)
    criterion = make_criterion(settings, np.arange(V, 0, -1), ids)
    line = CRITERIA[name]
    model = build(Model(d=D, init=0.5), V, rng, line.output, line.normalizer).to(dtype)
    window = Window(torch.randint(V, (B, T), generator=rng), torch.randint(V, (B, T), generator=rng))
    c = torch.randn(B, T, D, generator=rng, dtype=dtype)
    return criterion, model.output, c, window


def total(criterion, output, c, window, seed: int = 1) -> torch.Tensor:
    loss = criterion(output, c, window, torch.Generator().manual_seed(seed))
    return loss.fit.sum() + (0 if loss.penalty is None else loss.penalty.sum())


def dense(gradient: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    if gradient is None:
        return torch.zeros_like(like)
    return gradient.to_dense() if gradient.is_sparse else gradient


@pytest.mark.parametrize("name", CRITERIA)
def test_gradients_agree_with_finite_differences(name: str) -> None:
    criterion, output, c, window = problem(name)
    c.requires_grad_(True)
    total(criterion, output, c, window).backward()
    rng = torch.Generator().manual_seed(9)
    for tensor in [c, *output.parameters()]:
        direction = torch.randn(tensor.shape, generator=rng, dtype=torch.float64)
        slope = (dense(tensor.grad, tensor) * direction).sum()
        h = 1e-6
        with torch.no_grad():
            tensor += h * direction
            up = total(criterion, output, c, window)
            tensor -= 2 * h * direction
            down = total(criterion, output, c, window)
            tensor += h * direction
        assert float(slope) == pytest.approx(float((up - down) / (2 * h)), rel=2e-5, abs=2e-5)


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize("shared", ["window", "step", "token"])
def test_the_same_random_numbers_give_the_same_loss_and_another_does_not(name: str, shared: str) -> None:
    criterion, output, c, window = problem(name, shared)
    first, again, other = (float(total(criterion, output, c, window, seed).detach()) for seed in (1, 1, 2))
    assert first == again and np.isfinite(first)
    random = CRITERIA[name].draws or name in ("andreas", "infrequent")
    assert (first != other) == random


@pytest.mark.parametrize("name", CRITERIA)
def test_the_order_of_contexts_does_not_matter(name: str) -> None:
    """A share of contexts is a share of places, so all of them are taken here; test_a_share_is_unbiased has the rest."""
    criterion, output, c, window = problem(name, gamma=1.0)
    order = torch.tensor([2, 0, 1])
    turned = Window(window.inputs[order], window.targets[order])
    one, two = total(criterion, output, c, window), total(criterion, output, c[order], turned)
    assert float(one.detach()) == pytest.approx(float(two.detach()), rel=1e-9)


@pytest.mark.parametrize("name", ["andreas", "nce_r", "infrequent"])
@pytest.mark.parametrize("subset", ["contexts", "windows"])
def test_a_share_is_unbiased(name: str, subset: str) -> None:
    """Over many draws of D' the mean loss is the loss with all contexts in it."""
    criterion, output, c, window = problem(name, subset=subset, gamma=0.25)
    whole, *_ = problem(name, gamma=1.0)
    with torch.no_grad():
        every = float(total(whole, output, c, window))
        noise = [float(criterion.fit(output, c, window, torch.Generator().manual_seed(s)).loss.sum()) for s in range(4)]
        drawn = np.array([float(total(criterion, output, c, window, seed)) for seed in range(3000)])
        if name == "nce_r":  # its noise words are drawn by the same generator: compare the penalties alone
            assert len(set(noise)) > 1
            rng = torch.Generator
            penalties = [criterion(output, c, window, rng().manual_seed(seed)).penalty for seed in range(3000)]
            drawn = np.array([float(p.sum()) for p in penalties])
            every = float(whole(output, c, window, rng().manual_seed(0)).penalty.sum())
    assert drawn.mean() == pytest.approx(every, abs=4 * drawn.std() / len(drawn) ** 0.5)
    assert drawn.std() > 0


def test_negative_sampling_is_nce_in_other_words() -> None:
    """From its own start, every step of the two is the same, and so is the recovered model."""
    counts, models = np.arange(V, 0, -1), []
    for name in ("nce", "negative"):
        criterion = make_criterion(CriterionSettings(name=name, k=6), counts)
        rng = torch.Generator().manual_seed(5)
        model = build(Model(d=D, init=0.5), V, rng).double()
        criterion.start(model.output)
        for _ in range(5):
            window = Window(torch.randint(V, (B, T), generator=rng), torch.randint(V, (B, T), generator=rng))
            c = torch.randn(B, T, D, generator=rng, dtype=torch.float64)
            criterion.backward(model.output, c, window, rng, 1 / B)
            step(model.output.parameters(), 1.0, 5.0)
        models.append(criterion.recover(model.output).all_m(c.view(-1, D)))
    torch.testing.assert_close(models[0], models[1], rtol=0, atol=1e-6)  # log q is kept in float32


def test_batch_nce_takes_its_noise_from_the_other_streams() -> None:
    criterion, output, c, window = problem("nce_batch")
    q, slow = COUNTS / COUNTS.sum(), 0.0
    m = output.all_m(c.view(-1, D)).view(B, T, V).detach().numpy()
    for b in range(B):
        for t in range(T):
            others = [int(w) for other in range(B) if other != b for w in window.targets[other]]
            kq = len(others) * q
            w = int(window.targets[b, t])
            slow += np.log1p(np.exp(np.log(kq[w]) - m[b, t, w]))
            slow += sum(np.log1p(np.exp(m[b, t, v] - np.log(kq[v]))) for v in others)
    assert float(total(criterion, output, c, window).detach()) == pytest.approx(slow, rel=1e-6)
    with pytest.raises(UserError, match="at least 2"):
        criterion(output, c[:1], Window(window.inputs[:1], window.targets[:1]), torch.Generator())


@pytest.mark.parametrize("name", ["classes", "adaptive"])
@pytest.mark.parametrize("V", [2, 23, 401])
def test_what_is_normalized_by_construction_sums_to_one(name: str, V: int) -> None:
    _, output, c, _ = problem(name, V=V)
    flat = c.view(-1, D)
    with torch.no_grad():
        every = output.all_m(flat)
        torch.testing.assert_close(every.exp().sum(1), torch.ones(len(flat), dtype=torch.float64))
        for w in range(V):
            torch.testing.assert_close(output.m(torch.full((len(flat),), w), flat), every[:, w])


@pytest.mark.parametrize("name", [n for n in CRITERIA if CRITERIA[n].output == "full"])
def test_a_constant_added_to_every_score_matters_exactly_where_z_is_pinned(name: str) -> None:
    criterion, output, c, window = problem(name)
    before = float(total(criterion, output, c, window).detach())
    with torch.no_grad():
        output.bias += 0.7
    after = float(total(criterion, output, c, window).detach())
    moves = CRITERIA[name].pins == "yes" or name == "andreas"
    assert (abs(after - before) > 1e-6) == moves


@pytest.mark.parametrize("name", [n for n in CRITERIA if CRITERIA[n].output == "full"])
@pytest.mark.parametrize("penalty", ["exact", "sampled", "variance", "none"])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_what_settings_say_they_do_to_log_z_is_what_they_do(name: str, penalty: str, alpha: float) -> None:
    settings = CriterionSettings(name=name, k=6, alpha=alpha, penalty=penalty, gamma=1.0)
    try:
        criterion = make_criterion(settings, COUNTS)
    except UserError:
        assert name in ("andreas", "negative", "snis", "infrequent"), (
            "no lower bound, scores that are not log p, or its own"
        )
        return
    _, output, c, window = problem(name)
    before = float(total(criterion, output, c, window).detach())
    with torch.no_grad():
        output.bias += 0.7
    moves = abs(float(total(criterion, output, c, window).detach()) - before) > 1e-6
    assert moves == (pins(settings) == "yes" or name == "andreas")
    if pins(settings) == "constant":
        assert name == "andreas" or (penalty == "variance" and alpha > 0)


@pytest.mark.parametrize("name", ["nce", "blackout", "ranking"])
def test_bigram_noise_works_where_it_can(name: str) -> None:
    criterion, output, c, window = problem(name, "token", noise="bigram")
    assert torch.isfinite(total(criterion, output, c, window))


class Largest(TorchDispatchMode):
    """Remembers the largest tensor any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements, self.what = 0, ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (list, tuple)) else [result]:
            in_place = any(tensor is a for a in args)
            if (
                isinstance(tensor, torch.Tensor)
                and not in_place
                and tensor.layout == torch.strided
                and not _is_view(func)
            ) and tensor.numel() > self.elements:
                self.elements, self.what = tensor.numel(), str(func)
        return result


def _is_view(func) -> bool:
    name = str(func)
    return any(
        word in name
        for word in (
            "view",
            "detach",
            "transpose",
            "aten.t.",
            "expand",
            "alias",
            "slice",
            "select",
            "unsqueeze",
        )
    )


@pytest.mark.parametrize("name", SAMPLED)
def test_no_tensor_of_v_rows_is_made_in_a_sampled_step(name: str) -> None:
    """The property behind every speed claim: probe all operations of forward, backward and update."""
    big = 50_000
    criterion, _, _, window = problem(name, V=big, dtype=torch.float32)
    rng = torch.Generator().manual_seed(0)
    line = CRITERIA[name]
    model = build(Model(d=D), big, rng, line.output, line.normalizer)
    with Largest() as seen:
        c, _ = model.contexts(window.inputs, None, rng)
        criterion.backward(model.output, c, window, rng, 1 / B)
        step(model.parameters(), 1.0, 5.0)
    if name == "nce_r":  # its exact penalty is dense by nature, and the only dense part
        assert seen.elements >= big
    else:
        assert seen.elements < big, f"{seen.what} made a tensor of {seen.elements} elements"


@pytest.mark.parametrize("name", sorted(CRITERIA))
@pytest.mark.parametrize("subset", ["contexts", "windows"])
def test_backward_half_by_half_is_backward_of_the_sum(name: str, subset: str) -> None:
    """A penalty that goes first leaves the same gradients, sparse rows and dense tables together."""
    criterion, output, c, window = problem(name, subset=subset)
    got = []
    for together in (True, False):
        output.zero_grad(set_to_none=True)
        start = c.detach().requires_grad_()
        rng, behind = torch.Generator().manual_seed(1), 2 * start
        if together:
            loss = criterion(output, behind, window, rng)
            ((loss.fit.sum() + (0 if loss.penalty is None else loss.penalty.sum())) / B).backward()
        else:
            criterion.backward(output, behind, window, rng, 1 / B)
        grads = [p.grad for p in output.parameters() if p.grad is not None]
        got.append([start.grad, *(g.to_dense() if g.is_sparse else g for g in grads)])
    for one, other in zip(*got, strict=True):
        torch.testing.assert_close(one, other)


def test_the_menu_and_the_names_agree_on_who_draws_noise_words() -> None:
    assert {n for n in CRITERIA if CRITERIA[n].draws} == set(SAMPLED) - {"nce_batch"}  # whose noise is the batch


@pytest.mark.parametrize("name", CRITERIA)
def test_fresh_weights_come_from_the_seed_alone(name: str) -> None:
    line, states = CRITERIA[name], []
    for elsewhere in (1, 2):
        torch.manual_seed(elsewhere)  # torch's own random state must not matter
        model = build(Model(d=D), V, torch.Generator().manual_seed(0), line.output, line.normalizer)
        states.append(model.state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


@pytest.mark.parametrize("gamma", [1.0, 0.25])
def test_a_learned_normalizer_is_what_log_z_is_pulled_to(gamma: float) -> None:
    """The penalty is alpha/gamma (log Z of the rows - g)² on the chosen contexts, and it moves both."""
    criterion, output, c, window = problem("devlin_learned", gamma=gamma)
    with torch.no_grad():
        output.normalizer.affine.b.fill_(0.7)
    loss = criterion(output, c, window, torch.Generator().manual_seed(1))
    log_z = (c @ output.weight.t() + output.bias.view(-1)).logsumexp(-1)
    expected = (log_z - output.normalizer(c)) ** 2 / gamma
    chosen = loss.penalty != 0
    assert int(chosen.sum()) == round(gamma * B * T)
    assert torch.allclose(loss.penalty[chosen], expected[chosen])
    target = log_z - (c @ output.weight.t() + output.bias.view(-1)).gather(-1, window.targets.unsqueeze(-1)).squeeze(-1)
    assert torch.allclose(loss.fit, target)
    loss.penalty.sum().backward()
    assert output.normalizer.affine.b.grad.abs() > 0 and dense(output.weight.grad, output.weight).abs().max() > 0


@pytest.mark.parametrize(
    ("name", "given"),
    [("nce", {"penalty": "sampled"}), ("softmax", {"penalty": "exact"}), ("softmax", {"penalty": "variance"}), ("nce", {"gamma": 0.1})],
)  # fmt: skip
def test_a_penalty_without_a_weight_is_refused(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"criterion\.\w+=.*Set criterion\.alpha \(to 0 for none\)"):
        make_criterion(CriterionSettings(name=name, **given), COUNTS)
    assert (
        make_criterion(CriterionSettings(name=name, alpha=0.0, **given), COUNTS).penalty is None
    )  # as stored recipes say
    assert make_criterion(CriterionSettings(name=name, alpha=0.1, **given), COUNTS).penalty is not None


@pytest.mark.parametrize("name", ["negative", "snis", "classes", "adaptive"])
def test_a_penalty_that_cannot_be_is_refused_without_advice_that_fails(name: str) -> None:
    with pytest.raises(UserError, match=r"takes no penalty\. Leave this out"):
        make_criterion(CriterionSettings(name=name, penalty="exact"), COUNTS)

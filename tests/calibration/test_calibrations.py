"""Calibration networks: their features, their fit, and where there is nothing to fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from selfnorm._util.errors import UserError
from selfnorm.calibration.base import Budget
from selfnorm.calibration.mlp import fit, rows_that_matter, start_rows
from selfnorm.evaluation.measure import validate
from selfnorm.nn.normalizers import Mlp
from selfnorm.nn.output import Output
from selfnorm.runs.calibrate import calibrate_run
from selfnorm.runs.folder import changing
from selfnorm.runs.loading import load_model
from selfnorm.runs.opening import open_with_text
from selfnorm.runs.weights import save_weights
from selfnorm.studies.experiment import run_experiment as run

from ..conftest import tiny, write_text


def made_up(V: int = 40, d: int = 5) -> Output:
    output, rng = Output(V, d), torch.Generator().manual_seed(0)
    with torch.no_grad():
        output.weight.normal_(generator=rng)
        output.bias.normal_(generator=rng)
    return output.requires_grad_(False)


def test_the_extra_feature_is_the_log_of_the_frequent_words_sum() -> None:
    output, network = made_up(), Mlp(5, (4,), frequent=7)
    start_rows(network, output, torch.arange(network.frequent.out_features))
    c = torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(1))
    slow = output.all_m(c.view(-1, 5))[:, :7].logsumexp(1).view(3, 2)
    x = network.features(c)
    assert torch.equal(x[..., :5], c) and torch.allclose(x[..., 5], slow, atol=1e-6)


def test_a_network_that_may_sum_over_all_words_has_log_z_as_its_feature() -> None:
    output, network = made_up(), Mlp(5, (4,), frequent=40)
    start_rows(network, output, torch.arange(network.frequent.out_features))
    c = torch.randn(600, 5, generator=torch.Generator().manual_seed(2))
    assert torch.allclose(network.features(c)[:, -1], output.log_z(c), atol=1e-5)


def test_frequent_words_leave_less_to_learn() -> None:
    output, left = made_up(), []
    for frequent in (0, 20):
        rng = torch.Generator().manual_seed(3)
        c, network = torch.randn(4000, 5, generator=rng), Mlp(5, (16,), frequent)
        start_rows(network, output, torch.arange(frequent))
        fit(network, c[:3000].numpy(), output.log_z(c[:3000]).numpy(), Budget(passes=4), rng)
        with torch.no_grad():
            left.append(float((network(c[3000:]) - output.log_z(c[3000:])).std()))
    assert left[1] < 0.7 * left[0]


def test_a_rare_word_that_is_certain_somewhere_is_computed_before_a_frequent_one() -> None:
    """Word 3 has p = 0.98 in 4 % of the contexts, words 0 to 2 together nearly all of the rest: 0.3 each on average."""
    weight, bias = torch.zeros(60, 2), torch.full((60,), -6.0)
    bias[:3], weight[3] = 0.0, torch.tensor([11.0, 0.0])
    output = Output.from_rows(weight, bias)
    c = torch.zeros(1000, 2)
    c[::25, 0] = 1.0
    p = output.all_m(c).softmax(1)
    assert p[0, 3] > 0.97 and p.mean(0).argsort(descending=True)[:3].sort().values.tolist() == [0, 1, 2]
    slow = torch.log(1 - p.double()).square().mean(0)
    assert set(rows_that_matter(output, c.numpy(), None, 4).tolist()) == set(slow.argsort(descending=True)[:4].tolist())
    assert int(rows_that_matter(output, c.numpy(), None, 1)) == 3
    counts = torch.arange(60)
    assert rows_that_matter(output, c.numpy(), counts, 2).tolist() == [59, 58]


def test_a_stored_network_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = run(tiny(write_text(tmp_path / "tiny.txt")), tmp_path / "run").folder
    made, corpus = open_with_text(folder)
    for frequent in (0, 6):
        found = calibrate_run(made, corpus, "mlp", Budget(2000, 1, hidden=(8,), frequent=frequent))
        network = load_model(made, calibration="mlp").output.normalizer
        assert isinstance(network, Mlp) and (network.frequent is None) == (frequent == 0)
        again = validate(load_model(made, calibration="mlp"), corpus["valid"])
        assert found["frequent"] == frequent and again == pytest.approx(found["valid_after"], rel=1e-6, abs=1e-7)


def test_a_model_normalized_by_construction_is_refused_before_any_work(tmp_path: Path) -> None:
    recipe = tiny(write_text(tmp_path / "tiny.txt"))
    recipe = replace(recipe, criterion=replace(recipe.criterion, name="classes"))
    made, corpus = open_with_text(run(recipe, tmp_path / "run").folder)
    with pytest.raises(UserError, match="nothing to calibrate"):
        calibrate_run(made, corpus, "mlp")


def test_mlp_takes_the_place_of_a_normalizer_learned_with_the_model(tmp_path: Path) -> None:
    """Fitted to log Z of the rows alone, subtracted from the rows alone; affine goes on top of what was learned."""
    recipe = tiny(write_text(tmp_path / "tiny.txt"))
    recipe = replace(recipe, criterion=replace(recipe.criterion, name="nce_learned"))
    made, corpus = open_with_text(run(recipe, tmp_path / "run").folder)
    model = load_model(made, calibration="none")
    with torch.no_grad():
        model.output.normalizer.affine.b.fill_(3 / model.output.normalizer.scale)
    with changing(made) as new:
        save_weights(new, "best.safetensors", model)
        with new.file("calibration.mlp.safetensors") as temporary:
            save_file({"a": torch.zeros(1)}, temporary)
    with pytest.raises(UserError, match="older version"):
        load_model(made, calibration="mlp")
    for kind in ("mlp", "affine"):
        found = calibrate_run(made, corpus, kind, Budget(2000, 1, hidden=(8,), frequent=6))
        model = load_model(made, calibration=kind)
        assert validate(model, corpus["valid"]) == pytest.approx(found["valid_after"], rel=1e-5, abs=1e-6)
        assert found["valid_before"]["mu_z"] < -2 and abs(found["valid_after"]["mu_z"]) < 0.2
        assert isinstance(model.output.normalizer, Mlp) and bool(model.output.normalizer.frequent) == (kind == "mlp")
        assert validate(model, corpus["valid"])["perplexity"] == pytest.approx(
            found["valid_before"]["perplexity"], 1e-5
        )


def test_what_was_fitted_when_time_ran_out_is_kept(tmp_path: Path) -> None:
    made, corpus = open_with_text(run(tiny(write_text(tmp_path / "tiny.txt")), tmp_path / "run").folder)
    found = calibrate_run(made, corpus, "mlp", Budget(2000, 1, minutes=1e-9, hidden=(8,)))
    assert 0 < found["passes"] < 1 and 0 < found["contexts"] <= 2000
    assert load_model(made, calibration="mlp").output.normalizer is not None


def test_a_stored_calibration_is_put_in_use_again_without_fitting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from selfnorm.cli import main

    folder = run(tiny(write_text(tmp_path / "tiny.txt")), tmp_path / "run").folder
    assert main(["calibrate", str(folder), "--with", "affine", "--stored"]) == 2
    assert "has no affine calibration" in capsys.readouterr().err
    assert main(["calibrate", str(folder), "--with", "affine"]) == 0
    fitted = (folder / "calibration.affine.safetensors").read_bytes()
    for kind in ("none", "affine"):
        assert main(["calibrate", str(folder), "--with", kind, "--stored", "--json"]) == 0
        assert open_with_text(folder)[0].in_use == kind
    assert (folder / "calibration.affine.safetensors").read_bytes() == fitted


@pytest.mark.parametrize(
    "wrong", [{"passes": 0}, {"passes": float("inf")}, {"minutes": float("nan")}, {"hidden": (0,)}]
)
def test_a_budget_nobody_can_spend_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="above 0"):
        Budget(**wrong)

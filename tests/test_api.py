"""The public API: light, complete, and usable on anybody's model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import selfnorm as sn

from .conftest import write_text

SMALL = {"d": 12, "epochs": 2, "batch": 8, "steps": 8, "learning_rate": 0.5, "k": 10, "dropout": 0.0, "init": 0.4}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> sn.Run:
    place = tmp_path_factory.mktemp("api")
    text = place / "my.txt"
    tokenized = write_text(place / "t.txt").read_text().splitlines()
    text.write_text("".join(f"{line.capitalize()}.\n" for line in tokenized))
    return sn.train(place / "run", text=text, criterion="nce", **SMALL)


def test_every_public_name_is_there_and_has_a_docstring() -> None:
    for name in sn.__all__:
        thing = getattr(sn, name)
        assert name == "__version__" or thing.__doc__, name
    assert set(sn.__all__) <= set(dir(sn))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        sn.nonsense  # noqa: B018


def test_import_is_light() -> None:
    done = subprocess.run([sys.executable, "-c", "import sys, selfnorm; sys.exit('torch' in sys.modules)"], check=False)
    assert done.returncode == 0


def test_raw_text_is_tokenized_as_the_training_text_was(run: sn.Run) -> None:
    assert run.tokenizer == "words" and "." in run.vocab.index and "the" in run.vocab.index
    lm = sn.load(run.folder)
    assert lm.score("The cat saw a dog.") == pytest.approx(lm.score(["the", "cat", "saw", "a", "dog", "."]))
    assert lm.score("The cat saw a dog.") != pytest.approx(lm.score(["The", "cat", "saw", "a", "dog."]))


def test_train_resumes_and_refuses_unknown_settings(run: sn.Run, tmp_path: Path) -> None:
    again = sn.train(run.folder, text=run.recipe.data.file, criterion="nce", **SMALL)
    assert again.recipe == run.recipe
    with pytest.raises(sn.UserError, match='Did you mean "epochs"'):
        sn.train(tmp_path / "x", text=run.recipe.data.file, epoch=3)


def test_calibrate_measure_and_tokens_agree(run: sn.Run) -> None:
    raw = run.measure("test", calibration="none")
    run.calibrate("mlp", contexts=3000)
    assert run.in_use == "mlp" and sn.open_run(run.folder).in_use == "mlp"
    found, columns = run.measure("test"), run.tokens("test")
    assert found.sigma_z < raw.sigma_z and found.perplexity == pytest.approx(raw.perplexity, rel=1e-5)
    assert columns["log_z"].std() == pytest.approx(found.sigma_z, rel=1e-6)
    assert np.exp(-(columns["m"] - columns["log_z"]).mean()) == pytest.approx(found.perplexity, rel=1e-6)
    plain = run.tokens("test", calibration="none")
    assert np.allclose(columns["log_z"] + columns["estimate"], plain["log_z"], atol=1e-4)
    assert columns["word"][-1] == "<eos>" and len(columns["word"]) == found.words
    assert "sigma_z=" in repr(found) and "Run(" in repr(run)


def test_per_word_files(run: sn.Run, tmp_path: Path) -> None:
    from selfnorm.cli import main

    for ending in ("csv", "jsonl"):
        assert main(["measure", str(run.folder), "--split", "valid", "--per-word", str(tmp_path / f"w.{ending}")]) == 0
        assert len((tmp_path / f"w.{ending}").read_text().splitlines()) > 100
    assert main(["measure", str(run.folder), "--per-word", str(tmp_path / "w.xls")]) == 2


def test_scores_of_lines_and_their_tokens_agree(run: sn.Run) -> None:
    lm = run.scorer(calibration="none")
    lines = ["The cat saw a dog.", "", "It was here."]
    scores, columns = lm.score_batch(lines), lm.tokens(lines)
    by_line = [columns["m"][columns["sentence"] == place].sum() for place in range(3)]
    assert np.allclose(scores, by_line, atol=1e-4)


def test_rescore_plain_lists(run: sn.Run) -> None:
    lm = run.scorer(calibration="none")
    lists = [[("The cat saw a dog.", -1.0), ("dog a saw cat the", -0.9)], []]
    first, second = sn.rescore(lm, lists, lm_weight=2.0, exact="none")
    expected = [-1.0 + 2 * lm.score(lists[0][0][0]), -0.9 + 2 * lm.score(lists[0][1][0])]
    assert first.totals.tolist() == pytest.approx(expected, abs=1e-4)
    assert first.best == int(np.argmax(expected)) and second.best == -1
    exact = sn.rescore(run.scorer(normalized=True, calibration="none"), lists, lm_weight=2.0)[0]
    assert sn.rescore(run.folder, lists, lm_weight=2.0)[0].totals.tolist() == pytest.approx(
        exact.totals.tolist(), abs=1e-4
    )


def test_a_softmax_is_refused_until_it_is_calibrated(run: sn.Run, tmp_path: Path) -> None:
    softmax = sn.train(tmp_path / "sm", text=run.recipe.data.file, criterion="softmax", progress=False, **SMALL)
    with pytest.raises(sn.NotSelfNormalized, match="does not pin"):
        sn.load(softmax.folder)
    softmax.calibrate("mlp", contexts=2000)
    assert sn.load(softmax.folder).score("The cat.") < 0


@pytest.mark.parametrize("kind", ["shift", "affine", "mlp"])
@pytest.mark.parametrize("how", [{}, {"scale": 0.5}, {"cap": 5.0}, {"scale": 2.0, "cap": 10.0}])
def test_anybodys_linear_layer_is_calibrated(kind: str, how: dict[str, float], tmp_path: Path) -> None:
    rng = torch.Generator().manual_seed(0)
    linear = torch.nn.Linear(16, 200, bias=not how)
    with torch.no_grad():
        linear.weight.normal_(0, 0.6, generator=rng)
    before = linear.weight.clone()
    head = sn.Output.from_linear(linear, **how)
    c = torch.randn(6000, 16, generator=rng)
    x = linear(c[:50]).detach() * how.get("scale", 1.0)
    logits = how["cap"] * torch.tanh(x / how["cap"]) if "cap" in how else x
    assert torch.allclose(head.log_z(c[:50]), logits.logsumexp(-1), atol=1e-5)
    assert head.weight.data_ptr() == linear.weight.data_ptr(), "the rows are shared"
    g = sn.fit_normalizer(head, (piece for piece in c.split(1000)), kind, frequent=64, passes=8, progress=False)
    assert g.held_out.sigma_z <= g.held_out.sigma_z_before + 1e-6
    if kind == "mlp":
        assert g.held_out.sigma_z < 0.35 * g.held_out.sigma_z_before
    w = torch.randint(200, (50,), generator=rng)
    exact = logits.log_softmax(-1).gather(1, w.unsqueeze(1)).squeeze(1)
    got = head.with_normalizer(g).m(w, c[:50])
    assert float((got - exact).std()) < 1.5 * g.held_out.sigma_z + 1e-3
    sn.save_normalizer(tmp_path / "g.safetensors", g, head)
    again = sn.load_normalizer(tmp_path / "g.safetensors", head)
    assert torch.equal(again(c[:9]), g(c[:9])) and torch.equal(linear.weight, before)
    with pytest.raises(sn.UserError, match="another head"):
        sn.load_normalizer(tmp_path / "g.safetensors", sn.Output.from_linear(torch.nn.Linear(16, 200)))


def test_rows_are_chosen_by_use_not_by_their_ids() -> None:
    from selfnorm.calibration.mlp import rows_that_matter

    rng = torch.Generator().manual_seed(0)
    bias = torch.full((100,), -5.0)
    bias[[17, 3, 99]] = 5.0
    head = sn.Output.from_rows(torch.randn(100, 4, generator=rng) * 0.1, bias)
    chosen = rows_that_matter(head, torch.randn(500, 4, generator=rng).numpy(), None, 3)
    assert set(chosen.tolist()) == {17, 3, 99}
    counts = torch.arange(100)
    assert rows_that_matter(head, np.zeros((1, 4), np.float32), counts, 2).tolist() == [99, 98]


@pytest.mark.parametrize(("contexts", "told"), [(torch.zeros(5, 16), "at least 20"), (torch.zeros(50, 15), "must be")])
def test_wrong_contexts_are_refused(contexts: torch.Tensor, told: str) -> None:
    with pytest.raises(sn.UserError, match=told):
        sn.fit_normalizer(sn.Output.from_linear(torch.nn.Linear(16, 20)), contexts)


def test_a_list_of_texts_without_scores_is_refused(run: sn.Run) -> None:
    with pytest.raises(sn.UserError, match="a pair of text"):
        sn.rescore(run.scorer(calibration="none"), [["a", "b"]])


def test_a_setting_without_its_section_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from selfnorm.cli import main

    assert main(["train", "--to", str(tmp_path / "x"), "--set", "d=16"]) == 2
    assert 'Did you mean "model.d=16"' in capsys.readouterr().err

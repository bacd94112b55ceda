"""Scoring: sums, steps, order, refusal, and the KenLM-shaped face."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from selfnorm._util.errors import UserError
from selfnorm.cli import main
from selfnorm.config.criterion import pins
from selfnorm.config.recipe import CriterionSettings
from selfnorm.runs.calibrate import calibrate_run
from selfnorm.runs.folder import changing
from selfnorm.runs.history import read_history
from selfnorm.runs.opening import load as open_scorer
from selfnorm.runs.opening import open_with_text
from selfnorm.scoring.kenlm_compat import Model, State
from selfnorm.scoring.scorer import Scorer
from selfnorm.scoring.trie import score_together
from selfnorm.studies.experiment import run_experiment as run

from ..conftest import tiny, write_text

SENTENCES = ["the cat saw a dog", "a", "", "the old unheardof bird was here and there", "it was small"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("runs")
    file = write_text(base / "tiny.txt")
    run(tiny(file), base / "nce")
    run(tiny(file, name="softmax"), base / "softmax")
    run(tiny(file, name="andreas"), base / "andreas")
    return base


@pytest.mark.parametrize("normalized", [False, True])
def test_a_sentence_is_the_sum_of_its_words_and_of_its_steps(folder: Path, normalized: bool) -> None:
    scorer = open_scorer(folder / "nce", normalized)
    for sentence in SENTENCES:
        before, total = scorer.start(), 0.0
        for word in [*scorer.vocab.ids(sentence.split()), scorer.vocab.eos]:
            score, before = scorer.step(before, word)
            total += score
        assert scorer.score(sentence) == pytest.approx(float(scorer.word_scores(sentence).sum()), abs=1e-5)
        assert scorer.score(sentence) == pytest.approx(total, abs=1e-4)


def test_normalized_scores_are_log_probabilities(folder: Path) -> None:
    scorer = open_scorer(folder / "nce", normalized=True)
    before = scorer.start()
    total = sum(math.exp(scorer.step(before, word)[0]) for word in range(len(scorer.vocab)))
    assert total == pytest.approx(1, abs=1e-4)


def test_batching_keeps_the_order_and_changes_nothing(folder: Path) -> None:
    scorer = open_scorer(folder / "nce")
    lines = [SENTENCES[i % 5] for i in range(700)]
    streamed = list(scorer.stream(lines, size=50))
    assert [len(s) for s in streamed] == [len(line.split()) + 1 for line in lines]
    for line, scores in list(zip(lines, streamed, strict=True))[:5]:
        assert np.allclose(scores, scorer.word_scores(line), atol=1e-5)


@pytest.mark.parametrize("eos", [False, True])
def test_sharing_prefixes_changes_no_score(folder: Path, eos: bool) -> None:
    scorer = open_scorer(folder / "nce")
    ids = [scorer.vocab.ids(s.split()) for s in [*SENTENCES, "the cat saw a bird", "the cat", "the cat saw a dog"]]
    alone = scorer.batch(ids, eos)
    together = score_together(scorer, ids, eos, log_z=True)
    exact = Scorer(scorer.model, scorer.vocab, normalized=True).batch(ids, eos)
    for one, two, three in zip(alone, together, exact, strict=True):
        assert np.allclose(one, two.m, atol=1e-5)
        assert np.allclose(three, two.m - two.log_z, atol=1e-5)


def test_unknown_words_can_be_penalized(folder: Path) -> None:
    plain, strict = open_scorer(folder / "nce"), open_scorer(folder / "nce", unk_penalty=-5.0)
    assert strict.score(SENTENCES[3]) == pytest.approx(plain.score(SENTENCES[3]) - 5, abs=1e-4)


def test_a_model_that_cannot_self_normalize_is_refused_until_calibrated(folder: Path) -> None:
    with pytest.raises(UserError, match="does not pin log Z"):
        open_scorer(folder / "softmax")
    open_scorer(folder / "softmax", normalized=True)
    made, corpus = open_with_text(folder / "softmax")
    calibrate_run(made, corpus, "shift")
    with pytest.raises(UserError, match="--with mlp"):
        open_scorer(folder / "softmax")
    calibrate_run(made, corpus, "affine")
    assert isinstance(open_scorer(folder / "softmax"), Scorer)
    with pytest.raises(UserError, match="--with shift"):
        open_scorer(folder / "andreas")


def test_a_softmax_by_another_name_is_refused_too() -> None:
    assert pins(CriterionSettings(name="devlin")) == "yes"
    for name in ("devlin", "z_loss", "variance"):
        assert pins(CriterionSettings(name=name, alpha=0.0)) == "no"
    assert pins(CriterionSettings(name="nce_r", alpha=0.0)) == "yes"  # its fit pins log Z


def test_the_kenlm_face_adds_up_as_kenlm_does(folder: Path) -> None:
    model = Model(folder / "nce")
    for sentence in SENTENCES:
        parts = list(model.full_scores(sentence))
        assert model.score(sentence) == pytest.approx(sum(p for p, _, _ in parts))
        assert len(parts) == len(sentence.split()) + 1
        assert [oov for _, _, oov in parts][:-1] == [w not in model for w in sentence.split()]
        one, two, total = State(), State(), 0.0
        model.BeginSentenceWrite(one)
        for word in [*sentence.split(), "</s>"]:
            total += model.BaseScore(one, word, two)
            one, two = two, one
        assert total == pytest.approx(model.score(sentence), abs=1e-5)
    assert model.perplexity("the cat") == pytest.approx(10 ** (-model.score("the cat") / 3))
    assert model.score("the cat", bos=False, eos=False) != model.score("the cat", eos=False)
    exact = Model(open_scorer(folder / "nce"), normalized=True)
    assert exact.score("the cat") == Model(folder / "nce", normalized=True).score("the cat") != model.score("the cat")


def test_one_long_line_does_not_pad_the_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = open_scorer(folder / "nce")
    padded, alike = [], scorer._alike
    monkeypatch.setattr(
        scorer, "_alike", lambda s, eos: padded.append(len(s) * (1 + max(map(len, s)))) or alike(s, eos)
    )
    lines = [*SENTENCES * 12, "the cat " * 9_000, "a dog " * 3_000, "a dog " * 3_000]
    found = list(scorer.stream(lines))
    assert [len(x) for x in found] == [len(line.split()) + 1 for line in lines]
    assert max(padded) == 18_001 and sum(padded) < 35_000, "the long ones alone or nearly so"
    assert found[0].tolist() == pytest.approx(scorer.word_scores(SENTENCES[0]).tolist(), abs=1e-5)


@pytest.mark.parametrize(("named", "packed"), [([], False), (["-"], True)])
def test_the_score_command_streams_stdin(named: list[str], packed: bool, folder: Path) -> None:
    command = [sys.executable, "-m", "selfnorm", "score", str(folder / "nce"), *named]
    text = ("\n".join(SENTENCES) + "\n").encode()
    done = subprocess.run(command, input=gzip.compress(text) if packed else text, capture_output=True, check=True)
    scorer = open_scorer(folder / "nce")
    assert [float(x) for x in done.stdout.split()] == pytest.approx([scorer.score(s) for s in SENTENCES], abs=2e-4)


def test_a_stored_calibration_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tiny(write_text(tmp_path / "tiny.txt"), name="softmax"), tmp_path / "run", ["valid.affine"])
    (tmp_path / "t.txt").write_text("the cat\n")
    command = ["score", str(tmp_path / "run"), str(tmp_path / "t.txt")]
    assert main(command) == 2
    assert "--calibration affine" in capsys.readouterr().err
    assert main([*command, "--calibration", "affine"]) == 0
    expected = open_scorer(tmp_path / "run", calibration="affine").score("the cat")
    assert float(capsys.readouterr().out) == pytest.approx(expected, abs=1e-3)


def test_a_text_cut_in_another_way_is_noticed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, warned in (("The Cat, saw a dog.\n", True), ("the cat saw a dog\n", False)):
        (tmp_path / "t.txt").write_text(text)
        assert main(["score", str(folder / "nce"), str(tmp_path / "t.txt")]) == 0
        assert ("not in the vocabulary" in capsys.readouterr().err) is warned


def test_score_options(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.txt").write_text("the cat\n")
    assert main(f"score {folder}/nce {tmp_path}/t.txt --per-word --log10".split()) == 0
    words = [float(x) for x in capsys.readouterr().out.split()]
    assert len(words) == 3
    assert main(f"score {folder}/nce {tmp_path}/t.txt --no-eos --json".split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["words"]) == 2 and found["words"][0] == pytest.approx(words[0] * math.log(10), abs=1e-3)
    assert main(f"score {folder}/softmax-none {tmp_path}/t.txt".split()) == 2
    (tmp_path / "bad.txt").write_bytes(b"ok\n\xff\n")
    assert main(f"score {folder}/nce {tmp_path}/bad.txt".split()) == 2
    assert "line 2 is not UTF-8" in capsys.readouterr().err


def test_a_model_whose_log_z_is_far_from_0_says_so(text_file: Path, tmp_path: Path) -> None:
    made = run(tiny(text_file), tmp_path / "r")
    line = read_history(made.folder / "history.jsonl")[-1]
    (made.folder / "manifest.json").unlink()  # the history is edited below
    for mu_z, sigma_z, told in ((3.1, 1.6, True), (0.1, 0.1, False), (0.1, 1.6, True), (3.1, 0.1, True)):
        with changing(made) as new:
            new.text("history.jsonl", json.dumps({**line, "mu_z": mu_z, "sigma_z": sigma_z}) + "\n")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            open_scorer(made.folder)
        assert any("log Z is not near 0" in str(w.message) for w in caught) == told
        open_scorer(made.folder, normalized=True)  # a warning would be an error

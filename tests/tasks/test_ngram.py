"""n-gram models through the real kenlm package, and our KenLM face beside it on the same calls."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from selfnorm._util.errors import UserError
from selfnorm.cli import main
from selfnorm.scoring.kenlm_compat import Model, State
from selfnorm.studies.experiment import run_experiment as run
from selfnorm.tasks.ngram import Ngram, best_weight, mix_words

from ..conftest import tiny, write_text

kenlm = pytest.importorskip("kenlm")

ARPA = """\\data\\
ngram 1=6
ngram 2=3

\\1-grams:
-1.0\t<unk>
0\t<s>\t-0.3
-0.8\t</s>
-0.7\tthe\t-0.2
-0.9\tcat\t-0.1
-1.1\tdog

\\2-grams:
-0.2\t<s> the
-0.4\tthe cat
-0.3\tcat </s>

\\end\\
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("ngram")
    (base / "lm.arpa").write_text(ARPA)
    run(tiny(write_text(base / "tiny.txt")), base / "run")
    return base


def use(model, state_class) -> dict[str, object]:
    """Code as people write it for kenlm; it must run unchanged on ours."""
    sentence = "the cat foo"
    full = list(model.full_scores(sentence))
    one, two = state_class(), state_class()
    model.BeginSentenceWrite(one)
    stepped = 0.0
    for word in [*sentence.split(), "</s>"]:
        stepped += model.BaseScore(one, word, two)
        one, two = two, one
    return {
        "score": model.score(sentence, bos=True, eos=True),
        "no_eos": model.score(sentence, bos=True, eos=False),
        "full": full,
        "stepped": stepped,
        "perplexity": model.perplexity(sentence),
        "oov": [word in model for word in [*sentence.split(), "<unk>", "</s>", "<s>"]],
        "unk": [oov for _, _, oov in model.full_scores("the <unk>")],
    }


def test_the_same_calls_run_on_kenlm_and_on_ours(place: Path) -> None:
    theirs, ours = use(kenlm.Model(str(place / "lm.arpa")), kenlm.State), use(Model(place / "run"), State)
    for found in (theirs, ours):
        parts = found["full"]
        assert found["score"] == pytest.approx(sum(p for p, _, _ in parts), abs=1e-5)
        assert found["score"] == pytest.approx(found["stepped"], abs=1e-4)
        assert found["no_eos"] == pytest.approx(sum(p for p, _, _ in parts[:-1]), abs=1e-4)
        assert found["perplexity"] == pytest.approx(10 ** (-found["score"] / 4), rel=1e-4)
        assert [oov for _, _, oov in parts] == [False, False, True, False]
        assert found["oov"] == [True, True, False, False, True, True]
        assert found["unk"] == [False, True, False]
        assert all(isinstance(p, float) and isinstance(n, int) and isinstance(o, bool) for p, n, o in parts)


def test_ngram_scores_are_natural_logs(place: Path) -> None:
    scores = Ngram(place / "lm.arpa").words(["the", "cat"])
    assert scores.tolist() == pytest.approx([x * math.log(10) for x in (-0.2, -0.4, -0.3)], abs=1e-5)


def test_the_best_weight_is_the_best_of_a_grid() -> None:
    rng = np.random.default_rng(0)
    one, two = -rng.exponential(3, 500), -rng.exponential(3, 500)
    weight = best_weight(one, two)
    grid = [mix_words(one, two, w).mean() for w in np.linspace(0.01, 0.99, 99)]
    assert mix_words(one, two, weight).mean() >= max(grid) - 1e-6


def test_mixing_and_rescoring_with_an_ngram(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "t.txt").write_text("the cat\nthe dog saw a cat\n")
    assert (
        main(f"mix {place}/run {place}/lm.arpa {place}/t.txt {place}/t.txt --to {place}/mix.json --json".split()) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["mixed"] <= min(found["neural"], found["ngram"]) * 1.0001
    assert main(f"report {place}/mix.json".split()) == 2
    assert main(f"report {place} -o {place}/r.md".split()) == 0
    assert "Mixing with an n-gram model" in (place / "r.md").read_text()
    capsys.readouterr()
    (place / "l.jsonl").write_text(
        '{"id": "u", "hyps": [{"text": "the cat", "score": 0}, {"text": "cat the", "score": 0}]}\n'
    )
    assert main(f"rescore {place}/run {place}/l.jsonl --ngram {place}/lm.arpa --ngram-weight 1".split()) == 0
    assert capsys.readouterr().out.strip() == "u the cat"


def test_a_wrong_ngram_file_is_a_sentence(place: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        Ngram(place / "none.arpa")
    with pytest.raises(UserError, match="not an ARPA"):
        Ngram(place / "tiny.txt")


def test_counts_padded_as_irstlm_writes_them_are_read(tmp_path: Path) -> None:
    (tmp_path / "plain.arpa").write_text(ARPA)
    (tmp_path / "padded.arpa").write_text("\n" + ARPA.replace("ngram ", "ngram  ").replace("=", "=       "))
    plain, padded = Ngram(tmp_path / "plain.arpa"), Ngram(tmp_path / "padded.arpa")
    assert list(padded.words(["the", "cat"])) == list(plain.words(["the", "cat"]))

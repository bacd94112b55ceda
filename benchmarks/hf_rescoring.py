"""Rescoring with a language model of transformers: our tree of prefixes against two plain scripts, tokens per second and choices.

    python benchmarks/hf_rescoring.py MODEL LISTS.jsonl [--calibration AUDIT_FOLDER] [--lists 20] [--json FILE]

one at a time   each hypothesis through the model, log_softmax of its logits
by list         the hypotheses of a list as one padded batch, log_softmax of its logits
ours, exact     every prefix once, log Z in blocks
ours, 1best     with --calibration: estimates of log Z, exact values only where they could change the best hypothesis

CPU seconds on one thread. Tokens are those of all hypotheses, shared or not. Exits with 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from claim import AT_LEAST, Claims

from selfnorm.calibration.normalize import load_normalizer
from selfnorm.hf.scorer import LmScorer, chosen, open_scorer
from selfnorm.tasks.nbest.base import NBest
from selfnorm.tasks.nbest.lists import read_lists
from selfnorm.tasks.rescorer import Rescorer

Lists = list[tuple[np.ndarray, list[list[int]]]]  # acoustic scores, and the tokens of each hypothesis


def one_at_a_time(scorer: LmScorer, lists: Lists, weight: float) -> list[int]:
    model, best = scorer.opened.adapter.model, []
    for scores, hypotheses in lists:
        totals = []
        for score, ids in zip(scores, hypotheses, strict=True):
            row = torch.tensor([[scorer.vocab.start, *ids, scorer.vocab.eos]])
            log_p = model(input_ids=row[:, :-1]).logits.log_softmax(-1)
            totals.append(score + weight * float(log_p.gather(-1, row[:, 1:, None]).sum()))
        best.append(int(np.argmax(totals)))
    return best


def by_list(scorer: LmScorer, lists: Lists, weight: float) -> list[int]:
    model, best = scorer.opened.adapter.model, []
    for scores, hypotheses in lists:
        longest = max(map(len, hypotheses)) + 2
        rows = torch.full((len(hypotheses), longest), scorer.vocab.eos)
        real = torch.zeros(len(hypotheses), longest, dtype=torch.bool)
        for i, ids in enumerate(hypotheses):
            rows[i, : len(ids) + 2] = torch.tensor([scorer.vocab.start, *ids, scorer.vocab.eos])
            real[i, : len(ids) + 2] = True
        logits = model(input_ids=rows[:, :-1], attention_mask=real[:, :-1].long()).logits
        log_p = logits.log_softmax(-1).gather(-1, rows[:, 1:, None]).squeeze(-1)
        best.append(int(np.argmax(scores + weight * (log_p * real[:, 1:]).sum(1).double().numpy())))
    return best


def ours(scorer: LmScorer, lists: list[NBest], weight: float, exact: str) -> Callable[[], list[int]]:
    def work() -> list[int]:
        rescorer = Rescorer(scorer, weight, exact=exact)
        return [int(rescorer.weights.total(table.rows).argmax()) for _, table in rescorer.stream(lists)]

    return work


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("model")
    arguments.add_argument("lists", type=Path)
    arguments.add_argument("--calibration", type=Path)
    arguments.add_argument("--count", type=int, default=20, help="lists")
    arguments.add_argument("--lm-weight", type=float, default=1.0)
    arguments.add_argument("--start", default="<|endoftext|>")
    arguments.add_argument("--json", type=Path)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    scorer = open_scorer(given.model, settings=[f"start={given.start}"])
    read = read_lists(given.lists, "jsonl")[0]
    read = read[:: max(1, len(read) // given.count)][: given.count]
    lists = [(np.array([h.score for h in n.hypotheses]), [scorer.ids(h.words) for h in n.hypotheses]) for n in read]
    tokens = sum(len(ids) + 1 for _, every in lists for ids in every)
    works: dict[str, Callable[[], list[int]]] = {
        "one at a time": lambda: one_at_a_time(scorer, lists, given.lm_weight),
        "by list": lambda: by_list(scorer, lists, given.lm_weight),
        "ours, exact": ours(scorer, read, given.lm_weight, "all"),
    }
    if given.calibration is not None:
        head = scorer.opened.adapter.head
        output = load_normalizer(chosen(given.calibration), head).onto(head)
        estimated = LmScorer(scorer.opened, scorer.words, output, normalized=False)
        works["ours, 1best"] = ours(estimated, read, given.lm_weight, "1best")
    works["ours, exact"]()  # the trial of the tree, and memory
    seconds, picked = dict[str, float](), dict[str, Any]()
    for name, work in works.items():
        start = time.process_time()
        picked[name] = work()
        seconds[name] = time.process_time() - start
        print(f"{name:14s} {tokens / seconds[name]:8.1f} tokens/s", flush=True)
    claims, about = (
        Claims(),
        {"tokens": tokens, "lists": len(read), "tokens_per_second": {k: tokens / s for k, s in seconds.items()}},
    )
    for name in list(works)[2:]:
        claims.check(f"{name}, over one at a time", seconds["one at a time"] / seconds[name], AT_LEAST, 3)
        claims.check(f"{name}, over by list", seconds["by list"] / seconds[name], AT_LEAST, 1.5)
        same = float(np.mean([a == b for a, b in zip(picked[name], picked["one at a time"], strict=True)]))
        claims.check(f"{name}: share of lists with the 1-best of transformers", same, AT_LEAST, 1)
    command = f"python benchmarks/hf_rescoring.py MODEL {given.lists.name} --count {given.count} --lm-weight {given.lm_weight:g}"
    return claims.finish(given.json, command, **about)


if __name__ == "__main__":
    raise SystemExit(main())

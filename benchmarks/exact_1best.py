"""Exact decisions: how often skipping log Z changes the 1-best, and what it costs to have the exact one.

    python benchmarks/exact_1best.py RUN --from FOLDER --lists 300 --size 100 --calibration none mlp --to FILE.json

Lists are made from sentences of the run's test text: each hypothesis replaces a few words by others of about the same frequency;
its acoustic score is normal noise, lower for each replaced word.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfnorm._util.console import table
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment
from selfnorm.data.corpus import Corpus
from selfnorm.runs.opening import open_with_text
from selfnorm.tasks.exact import exact_tables
from selfnorm.tasks.nbest.base import Hypothesis, NBest
from selfnorm.tasks.rescoring import Weights, choose, tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--from", dest="folder", default="")
    parser.add_argument("--lists", type=int, default=300)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--weight", type=float, default=0.8)
    parser.add_argument("--calibration", nargs="+", default=["none"])
    parser.add_argument("--to", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    run, corpus = open_with_text(given.run, given.folder)
    lists, weights = made_up(corpus, given.lists, given.size), Weights(given.weight)
    rows = [measured(run, kind, lists, weights) for kind in given.calibration]
    cells = [[str(value) for value in row.values()] for row in rows]
    table(f"{given.run.name}: {given.lists} lists of {given.size}", list(rows[0]), cells)
    if given.to:
        write_json(given.to, {"command": command_line(), **environment(), "run": given.run.name, "rows": rows})
    else:
        print(json.dumps(rows))


def made_up(corpus: Corpus, count: int, size: int) -> list[NBest]:
    rng, V = np.random.default_rng(0), len(corpus.vocab)
    sentences = [s for s in corpus.sentences("test") if 4 <= len(s) <= 40][:count]
    lists = []
    for place, sentence in enumerate(sentences):
        ids, hypotheses = corpus.vocab.ids(sentence), []
        for number in range(size):
            words, changed = list(ids), min(len(ids), int(rng.geometric(0.4))) if number else 0
            for at in rng.choice(len(ids), changed, replace=False):
                words[at] = int(np.clip(words[at] + rng.integers(-50, 51), 0, V - 1))
            score = float(rng.normal(-1.5 * changed, 1.0))
            hypotheses.append(Hypothesis(tuple(corpus.vocab.words[i] for i in words), score))
        lists.append(NBest(str(place), tuple(hypotheses)))
    return lists


def measured(run: Any, kind: str, lists: list[NBest], weights: Weights) -> dict[str, Any]:
    scorer = run.scorer(normalized=True, calibration=kind).with_log_z(False)
    start = time.process_time()
    plain = choose(tables(scorer, lists, tokenized=True), weights)
    skipped = time.process_time() - start
    start = time.process_time()
    found, report = exact_tables(scorer, lists, weights, tokenized=True)
    decided, picked = time.process_time() - start, choose(found, weights)
    start = time.process_time()
    exact = choose(tables(scorer.with_log_z(True), lists, tokenized=True), weights)
    everywhere = time.process_time() - start
    return {
        "calibration": kind,
        "lists": len(lists),
        "changed by skipping": sum(a != b for a, b in zip(plain, exact, strict=True)),
        "changed with exact 1best": sum(a != b for a, b in zip(picked, exact, strict=True)),
        "log Z computed for": round(report.computed / report.contexts, 4),
        "certain without": report.certain,
        "times skipping": round(decided / skipped, 3),
        "all exact, times skipping": round(everywhere / skipped, 3),
    }


if __name__ == "__main__":
    main()

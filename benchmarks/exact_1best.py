"""Exact decisions: how often skipping log Z changes the 1-best, and what it costs to have the exact one.

    python benchmarks/exact_1best.py RUN --from FOLDER --made-up 300 --size 100 --calibration none mlp --to FILE.json
    python benchmarks/exact_1best.py RUN --lists swbd/easy.jsonl swbd/unrestricted.jsonl --weight 0.8 --calibration none mlp
    python benchmarks/exact_1best.py RUN --questions testing_data.csv --weight 1 --calibration none mlp
    python benchmarks/exact_1best.py random:33278:650 --made-up 40 --size 100

random:V:d is a model of random weights, for the cost alone: its log Z hardly varies, as that of a calibrated model.

Made-up lists are sentences of the run's test text: each hypothesis replaces a few words by others of about the same frequency; its
acoustic score is normal noise, lower for each replaced word. Questions are lists of their choices without other scores. Skipping
log Z, exact decisions and log Z everywhere are timed in turn, three times each; ratios are those of the medians of CPU time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfnorm._util.console import table
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment
from selfnorm.config.recipe import Model
from selfnorm.data.corpus import Corpus
from selfnorm.data.vocab import Vocab
from selfnorm.nn.model import build
from selfnorm.runs.folder import open_run
from selfnorm.runs.opening import text_of_run
from selfnorm.scoring.scorer import Scorer
from selfnorm.tasks.completion import as_lists, read_questions
from selfnorm.tasks.exact import exact_tables
from selfnorm.tasks.nbest.base import Hypothesis, NBest
from selfnorm.tasks.nbest.lists import read_lists
from selfnorm.tasks.rescoring import Weights, choose, tables

ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--from", dest="folder", default="")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--made-up", type=int)
    kind.add_argument("--lists", type=Path, nargs="+")
    kind.add_argument("--questions", type=Path)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--weight", type=float, default=0.8)
    parser.add_argument("--calibration", nargs="+", default=["none"])
    parser.add_argument("--to", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.run.startswith("random:"):
        run: Any = Random(*map(int, given.run.split(":")[1:]))
        lists, about = run.lists(given.made_up, given.size), "lists of random words"
        report(given, lists, about, [measured(run, "none", lists, Weights(given.weight))])
        return
    run = open_run(given.run)
    if given.questions:
        lists, about = list(as_lists(read_questions(given.questions), run.tokenize)), "completion questions"
    elif given.lists:
        lists, about = [n for path in given.lists for n in read_lists(path, "jsonl")[0]], "n-best lists"
    else:
        lists, about = made_up(text_of_run(run, given.folder), given.made_up, given.size), "made-up lists"
    report(given, lists, about, [measured(run, name, lists, Weights(given.weight)) for name in given.calibration])


def report(given: argparse.Namespace, lists: list[NBest], about: str, rows: list[dict[str, Any]]) -> None:
    name = Path(given.run).name
    cells = [[str(value) for value in row.values()] for row in rows]
    table(f"{name}: {len(lists)} {about}", list(rows[0]), cells)
    if given.to:
        facts = {"command": command_line(), **environment(), "run": name, "lists": about, "rows": rows}
        write_json(given.to, facts)
    else:
        print(json.dumps(rows))


class Random:
    """A model of random weights and a vocabulary of numbers, with what `measured` asks of a run."""

    def __init__(self, V: int, d: int) -> None:
        self.vocab = Vocab(["<eos>", "<unk>", *map(str, range(V - 2))], [1] * V)
        self.model = build(Model(d=d), V, torch.Generator().manual_seed(0))

    def scorer(self, normalized: bool, calibration: str) -> Scorer:
        return Scorer(self.model, self.vocab, normalized)

    def lists(self, count: int, size: int) -> list[NBest]:
        rng, made = np.random.default_rng(0), []
        for place in range(count):
            base = [self.vocab.words[i] for i in rng.integers(2, len(self.vocab), 20)]
            hypotheses = []
            for number in range(size):
                words = list(base)
                for at in rng.choice(20, min(20, int(rng.geometric(0.4))) if number else 0, replace=False):
                    words[at] = self.vocab.words[int(rng.integers(2, len(self.vocab)))]
                hypotheses.append(Hypothesis(tuple(words), float(rng.normal())))
            made.append(NBest(str(place), tuple(hypotheses)))
        return made


def made_up(corpus: Corpus, count: int, size: int) -> list[NBest]:
    rng, V = np.random.default_rng(0), len(corpus.vocab)
    sentences, lists = [s for s in corpus.sentences("test") if 4 <= len(s) <= 40], list[NBest]()
    for place, sentence in enumerate(islice(cycle(sentences), count)):
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
    ways: dict[str, Callable[[], Any]] = {
        "skipped": lambda: tables(scorer, lists, tokenized=True),
        "decided": lambda: exact_tables(scorer, lists, weights, tokenized=True),
        "everywhere": lambda: tables(scorer.with_log_z(True), lists, tokenized=True),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, Any] = {}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            start = time.process_time()
            found[name] = way()
            seconds[name].append(time.process_time() - start)
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    decided, report = found["decided"]
    exact = choose(found["everywhere"], weights)
    return {
        "calibration": kind,
        "lists": len(lists),
        "changed by skipping": _changed(choose(found["skipped"], weights), exact),
        "changed with exact 1best": _changed(choose(decided, weights), exact),
        "log Z computed for": round(report.share, 4),
        "certain without": report.certain,
        "times skipping": round(medians["decided"] / medians["skipped"], 3),
        "all exact, times skipping": round(medians["everywhere"] / medians["skipped"], 3),
    }


def _changed(one: list[int], two: list[int]) -> int:
    return sum(a != b for a, b in zip(one, two, strict=True))


if __name__ == "__main__":
    main()

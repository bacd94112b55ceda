"""What skipping log Z and sharing the left part of the candidates gain in sentence completion, as ratios.

    python benchmarks/completion.py [--questions testing_data.csv] [--rounds 3] [--json FILE]

All 5,200 candidates of the challenge (or as many made-up ones of the same shape), V = 50,000, d = 650, random weights:
the time does not depend on what a model has learnt. Exits with 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfnorm.bench.timing import Work, interleaved
from selfnorm.files import write_json
from selfnorm.memory import keep_freed_memory
from selfnorm.model import build
from selfnorm.recipe import Model
from selfnorm.results import environment
from selfnorm.score import Scorer
from selfnorm.tasks.completion import AT_ONCE, Question, read_questions
from selfnorm.tasks.trie import score_together
from selfnorm.text import EOS, UNK, Vocab
from selfnorm.text.encode import words_of

V, d, CHOICES = 50_000, 650, 5


def made_up(count: int = 1040) -> list[Question]:
    """Sentences of 5 to 40 words with a gap anywhere but at the start, as in the challenge."""
    chance, found = np.random.default_rng(0), []
    for number in range(count):
        words = [f"w{i}" for i in chance.integers(V - 2, size=chance.integers(5, 41))]
        words[chance.integers(1, len(words))] = "_____"
        choices = tuple(f"w{i}" for i in chance.choice(V - 2, CHOICES, replace=False))
        found.append(Question(str(number), " ".join(words), choices))
    return found


def scorer_for(questions: list[Question]) -> Scorer:
    """Random weights over the words of the questions, filled up to V words."""
    words = {word for q in questions for sentence in q.sentences() for word in words_of(sentence)}
    listed = [EOS, UNK, *sorted(words - {EOS, UNK}), *(f"filler{i}" for i in range(V))][:V]
    return Scorer(build(Model(d=d), V, torch.Generator().manual_seed(0)), Vocab(listed, [1] * V))


def works_of(scorer: Scorer, questions: list[Question]) -> dict[str, Work]:
    size = AT_ONCE * CHOICES
    ids = [scorer.vocab.ids(words_of(s)) for q in questions for s in q.sentences()]
    parts = [ids[at : at + size] for at in range(0, len(ids), size)]
    return {
        "unnormalized": lambda: [score_together(scorer, part) for part in parts],
        "normalized": lambda: [score_together(scorer, part, log_z=True) for part in parts],
        "not shared": lambda: [scorer.batch(part) for part in parts],
    }


def claims(questions: list[Question], rounds: int) -> list[dict[str, Any]]:
    seconds = interleaved(works_of(scorer_for(questions), questions), rounds, 0)
    found = []
    for what, over, least in (
        ("normalized over unnormalized, all candidates", "normalized", 4.0),
        ("without sharing the left part over sharing it, unnormalized", "not shared", 1.4),
    ):
        ratio = seconds[over] / seconds["unnormalized"]
        found.append(
            {
                "claim": f"{what}, V = {V:,}, d = {d}",
                "ratio": round(ratio, 2),
                "bound": f"at least {least:g}",
                "holds": ratio >= least,
                "seconds": {name: round(value, 2) for name, value in seconds.items()},
            }
        )
        print(f"{'ok  ' if ratio >= least else 'FAIL'} {ratio:7.2f}  at least {least:<4g} {what}", flush=True)
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--questions", type=Path, default=None)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--json", type=Path, default=None)
    chosen = arguments.parse_args()
    torch.set_num_threads(2)
    keep_freed_memory()
    questions = read_questions(chosen.questions) if chosen.questions else made_up()
    found = claims(questions, chosen.rounds)
    if chosen.json:
        about = {"questions": chosen.questions.name if chosen.questions else "made up", "count": len(questions)}
        questions_file = f" --questions {chosen.questions.name}" if chosen.questions else ""
        command = f"python benchmarks/completion.py{questions_file} --rounds {chosen.rounds}"
        write_json(chosen.json, {**environment(), "command": command, **about, "claims": found})
    return 0 if all(row["holds"] for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())

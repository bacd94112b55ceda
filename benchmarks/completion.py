"""What skipping log Z and sharing the left part of the candidates gain in sentence completion, as ratios.

    python benchmarks/completion.py [--questions testing_data.csv] [--rounds 3] [--json FILE]

All 5,200 candidates of the challenge (or as many made-up ones of the same shape), V = 50,000, d = 650, random weights:
the time does not depend on what a model has learnt. Exits with 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from claim import AT_LEAST, Claims

from selfnorm._util.memory import keep_freed_memory
from selfnorm.config.recipe import Model
from selfnorm.data.tokenizers import words_of
from selfnorm.data.vocab import EOS, UNK, Vocab
from selfnorm.nn.model import build
from selfnorm.scoring.scorer import Scorer
from selfnorm.scoring.trie import score_together
from selfnorm.studies.bench.timing import Work, interleaved
from selfnorm.tasks.completion import AT_ONCE, Question, read_questions

V, d, CHOICES = 50_000, 650, 5


def made_up(count: int = 1040) -> list[Question]:
    """Sentences of 5 to 40 words with a gap anywhere but at the start, as in the challenge."""
    rng, questions = np.random.default_rng(0), []
    for number in range(count):
        words = [f"w{i}" for i in rng.integers(V - 2, size=rng.integers(5, 41))]
        words[rng.integers(1, len(words))] = "_____"
        choices = tuple(f"w{i}" for i in rng.choice(V - 2, CHOICES, replace=False))
        questions.append(Question(str(number), " ".join(words), choices))
    return questions


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


def check(claims: Claims, questions: list[Question], rounds: int) -> None:
    seconds = interleaved(works_of(scorer_for(questions), questions), rounds, 0)
    rounded = {name: round(value, 2) for name, value in seconds.items()}
    for what, over, least in (
        ("normalized over unnormalized, all candidates", "normalized", 4.0),
        ("without sharing the left part over sharing it, unnormalized", "not shared", 1.4),
    ):
        ratio = seconds[over] / seconds["unnormalized"]
        claims.check(f"{what}, V = {V:,}, d = {d}", ratio, AT_LEAST, least, seconds=rounded)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--questions", type=Path, default=None)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--json", type=Path, default=None)
    chosen = arguments.parse_args()
    torch.set_num_threads(2)
    keep_freed_memory()
    questions = read_questions(chosen.questions) if chosen.questions else made_up()
    claims = Claims()
    check(claims, questions, chosen.rounds)
    about = {"questions": chosen.questions.name if chosen.questions else "made up", "count": len(questions)}
    questions_file = f" --questions {chosen.questions.name}" if chosen.questions else ""
    command = f"python benchmarks/completion.py{questions_file} --rounds {chosen.rounds}"
    return claims.finish(chosen.json, command, **about)


if __name__ == "__main__":
    raise SystemExit(main())

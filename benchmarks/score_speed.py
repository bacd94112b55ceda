"""Sentences per second of `Scorer.score_batch` without log Z, beside KenLM's `Model.score` on the same sentences.

    python benchmarks/score_speed.py RUN TEXT ARPA [--lines 20000] [--to FILE.json]

CPU time on one thread, in turns, medians of five. A 3-gram looks up a few hash entries a word, an LSTM multiplies two matrices a
layer: the ratio says what a neural model costs, not which program is better.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import kenlm
import torch

import selfnorm as sn
from selfnorm._util.console import table
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("arpa", type=Path)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--to", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with given.text.open(encoding="utf-8") as handle:
        lines = [line.strip() for line in islice(handle, given.lines)]
    lm, ngram = sn.load(given.run), kenlm.Model(str(given.arpa))
    ways = {"selfnorm": lambda: lm.score_batch(lines), "kenlm": lambda: [ngram.score(line) for line in lines]}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(5):
        for name, work in ways.items():
            times[name].append(seconds(work))
    medians = {name: statistics.median(values) for name, values in times.items()}
    words = sum(len(line.split()) + 1 for line in lines)
    rows = [
        {"scorer": name, "sentences/s": round(len(lines) / took), "words/s": round(words / took)}
        for name, took in medians.items()
    ]
    table("score", list(rows[0]), [[f"{value}" for value in row.values()] for row in rows])
    ratio = medians["selfnorm"] / medians["kenlm"]
    print(f"KenLM is {ratio:.1f} times as fast.")
    if given.to:
        write_json(
            given.to, {"command": command_line(), **environment(), "d": lm.model.output.d, "rows": rows, "ratio": ratio}
        )


if __name__ == "__main__":
    main()

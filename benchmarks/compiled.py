"""Training steps as they are, under torch.compile and in bf16: CPU seconds of a step, one thread, and the ratio.

    python benchmarks/compiled.py --to benchmarks/results/compiled.json

A step is forward and backward of encoder and criterion; the update is left out. The variants take turns step by step, so that
whatever else the machine does meets all of them. CPU seconds are counted, not the clock. What torch.compile cannot do at all
is reported as its error.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfnorm._util.devices import make_rng
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment
from selfnorm._util.memory import keep_freed_memory
from selfnorm.config.recipe import CriterionSettings, Model, Training
from selfnorm.criteria.build import Criterion, make_criterion
from selfnorm.data.windows import Windows
from selfnorm.nn.model import LanguageModel, build
from selfnorm.nn.noise import Noise
from selfnorm.studies.bench.steps import zipf_counts
from selfnorm.training.loop import Place, backward

B, T = 20, 20
VARIANTS = ("as it is", "encoder compiled", "criterion compiled", "bf16")


class Step:
    """One variant of a training step, always of the same window."""

    def __init__(self, variant: str, criterion: str, encoder: str, V: int, d: int) -> None:
        counts, self.rng = zipf_counts(V), make_rng(1)
        ids = np.random.default_rng(0).choice(V, size=B * T + B, p=counts / counts.sum())
        self.model = build(Model(d=d, dropout=0.0, encoder=encoder), V, self.rng)
        self.criterion = make_criterion(CriterionSettings(name=criterion), counts, ids)
        self.window = Windows(ids, B, T)[0]
        self.training = Training(precision="bf16" if variant == "bf16" else "float32")
        if variant == "encoder compiled":
            self.model = LanguageModel(torch.compile(self.model.encoder), self.model.output)
        if variant == "criterion compiled":
            Noise.sample = torch.compiler.disable(Noise.sample)  # it takes no random generator
            self.criterion = Criterion(torch.compile(self.criterion.fit), self.criterion.penalty)

    def __call__(self) -> tuple[float, float]:
        """CPU seconds, and the loss."""
        self.model.zero_grad(set_to_none=True)
        start, rng = time.process_time(), make_rng(2)
        loss, _ = backward(self.model, self.criterion, self.window, self.training, Place(), (rng, rng))
        return time.process_time() - start, float(loss.fit.detach().sum())


def one_case(criterion: str, encoder: str, V: int, d: int, rounds: int, variants: list[str]) -> dict[str, Any]:
    steps, errors, first = dict[str, Step](), dict[str, str](), dict[str, tuple[float, float]]()
    for variant in variants:
        step = Step(variant, criterion, encoder, V, d)
        try:
            first[variant] = step()  # with the time that compiling takes
            step()
            steps[variant] = step
        except Exception as error:
            errors[variant] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
    laps: dict[str, list[float]] = {variant: [] for variant in steps}
    for _ in range(rounds):
        for variant, step in steps.items():
            laps[variant].append(step()[0])
    median = {variant: statistics.median(times) for variant, times in laps.items()}
    return {
        "criterion": criterion, "encoder": encoder, "V": V, "d": d, "rounds": rounds, "cpu_seconds": median,
        "ratio": {variant: median["as it is"] / seconds for variant, seconds in median.items()},
        "first_step_seconds": {variant: seconds for variant, (seconds, _) in first.items()},
        "loss": {variant: loss for variant, (_, loss) in first.items()}, "errors": errors,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="*", default=["nce/lstm/650", "softmax/lstm/650", "nce/transformer/640"])
    parser.add_argument("--variant", nargs="*", default=list(VARIANTS))
    parser.add_argument("--vocab", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--to", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    found = []
    for case in options.case:
        criterion, encoder, d = case.split("/")
        found.append(one_case(criterion, encoder, options.vocab, int(d), options.rounds, options.variant))
        print(json.dumps(found[-1]), flush=True)
    if options.to is not None:
        write_json(options.to, {"command": command_line(), **environment(), "threads": 1, "cases": found})


if __name__ == "__main__":
    main()

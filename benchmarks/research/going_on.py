"""A finished NCE-LM goes on for a few epochs at a low rate, with another criterion or other noise.

penalty   Does a penalty cost perplexity by where it leads, or by being there from the first step at a high rate? What is lost
          here is what the penalty itself asks for; what a run with it from the start loses beyond that, it loses on the way.
noise     How much perplexity do k = 100 noise words shared by a window cost, against more of them, or words for every token?

    python benchmarks/research/going_on.py RUN [--with penalty] [--rate 0.08] [--epochs 1] [--json FILE]
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from selfnorm._util.console import progress, table
from selfnorm._util.files import write_json
from selfnorm._util.machine import environment
from selfnorm._util.memory import keep_freed_memory
from selfnorm.config.recipe import CriterionSettings
from selfnorm.criteria.build import make_criterion
from selfnorm.data.corpus import Corpus
from selfnorm.data.windows import Windows
from selfnorm.evaluation.measure import validate
from selfnorm.runs.folder import Run
from selfnorm.runs.loading import load_model
from selfnorm.runs.opening import open_with_text
from selfnorm.training.loop import Place, train

CRITERIA = {
    "penalty": [
        CriterionSettings("nce"),
        *(CriterionSettings("nce_r", alpha, subset="contexts") for alpha in (0.1, 1.0, 10.0)),
        CriterionSettings("nce_s", k=1000),
    ],
    "noise": [CriterionSettings("nce"), CriterionSettings("nce", k=1000), CriterionSettings("nce", shared="token")],
}


def go_on(run: Run, corpus: Corpus, settings: CriterionSettings, rate: float, epochs: int) -> dict[str, float]:
    """The validation numbers after going on from the run's best weights."""
    model = load_model(run, calibration="none").requires_grad_(True)
    training = replace(run.recipe.training, learning_rate=rate, decay_after=epochs, epochs=epochs)
    windows = Windows(corpus["train"], training.batch, training.steps)
    criterion = make_criterion(settings, corpus.counts(), corpus["train"])
    rng = torch.Generator().manual_seed(training.seed)
    with progress(f"{settings.name} {settings.alpha:g}", epochs * len(windows), "windows") as advance:
        for _ in train(model, criterion, windows, training, rng, Place()):
            advance(1)
    return validate(model, corpus["valid"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--with", dest="kind", choices=CRITERIA, default="penalty")
    parser.add_argument("--rate", type=float, default=0.08)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    keep_freed_memory()
    run, corpus = open_with_text(asked.run)
    torch.set_num_threads(run.recipe.training.threads)
    before = validate(load_model(run, calibration="none"), corpus["valid"])
    rows: list[dict[str, Any]] = [{"criterion": "as it was", "alpha": "", **before}]
    for settings in CRITERIA[asked.kind]:
        after = go_on(run, corpus, settings, asked.rate, asked.epochs)
        rows.append(
            {
                "criterion": settings.name,
                **asdict(settings),
                "alpha": settings.alpha if settings.alpha > 0 else "",
                **after,
            }
        )
    keys = ("criterion", "alpha", "k", "shared")
    shown = [[*(str(r.get(key, "")) for key in keys), *_numbers(r)] for r in rows]
    table(f"after {asked.epochs} more epochs", [*keys, "perplexity", "sigma_z", "mu_z"], shown)
    if asked.json:
        about = {"run": run.folder.name, "rate": asked.rate, "epochs": asked.epochs}
        write_json(asked.json, {**environment(), **about, "rows": rows})


def _numbers(row: dict[str, Any]) -> list[str]:
    return [f"{row['perplexity']:.1f}", f"{row['sigma_z']:.3f}", f"{row['mu_z']:+.3f}"]


if __name__ == "__main__":
    main()

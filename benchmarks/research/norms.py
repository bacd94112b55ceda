"""How large are the gradients of the fit and of the penalty, compared with the clip that bounds their sum?

A step is clipped by the norm of all its gradients. Where the penalty's is large, the fit's share of the step shrinks: the
penalty then costs perplexity by slowing the fit, whatever its weight. This script measures both norms at a trained model, on
training windows with dropout on, for several criteria.

    python benchmarks/research/norms.py RUN [--windows 40] [--json FILE]
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfnorm._util.console import progress, table
from selfnorm._util.files import write_json
from selfnorm._util.machine import environment
from selfnorm.config.recipe import CriterionSettings
from selfnorm.criteria.build import Criterion, make_criterion
from selfnorm.data.windows import Windows
from selfnorm.nn.encoders import State, detach
from selfnorm.nn.model import LanguageModel
from selfnorm.runs.loading import load_model
from selfnorm.runs.opening import open_with_text

CRITERIA = [
    CriterionSettings("nce"),
    *(CriterionSettings("nce_r", alpha, subset=way) for way in ("contexts", "windows") for alpha in (0.1, 1.0, 10.0)),
    CriterionSettings("nce_s", k=1000),
    CriterionSettings("softmax"),
    *(CriterionSettings("devlin", alpha) for alpha in (0.1, 1.0, 10.0)),
]


def norm(model: LanguageModel, part: Tensor) -> float:
    """The norm over all parameters of the gradient of `part`, duplicates summed."""
    model.zero_grad(set_to_none=True)
    part.backward(retain_graph=True)
    grads = [
        p.grad.coalesce().values() if p.grad.is_sparse else p.grad for p in model.parameters() if p.grad is not None
    ]
    return math.sqrt(sum(float(g.square().sum()) for g in grads))


def norms(model: LanguageModel, criterion: Criterion, windows: Windows, count: int) -> tuple[list[float], list[float]]:
    """Norms of the fit's gradient, and of the penalty's in windows where there is one."""
    rng, state = torch.Generator().manual_seed(0), None
    fits, penalties = list[float](), list[float]()
    for index in range(count):
        window = windows[index]
        c, after = model.contexts(window.inputs, state, rng)
        following: State = detach(after)
        state = following
        loss = criterion(model.output, c, window, rng)
        fits.append(norm(model, loss.fit.sum() / windows.B))
        if loss.penalty is not None and float(loss.penalty.detach().sum()) > 0:
            penalties.append(norm(model, loss.penalty.sum() / windows.B))
    return fits, penalties


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--windows", type=int, default=40)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    run, corpus = open_with_text(asked.run)
    model = load_model(run, calibration="none").requires_grad_(True)
    windows = Windows(corpus["train"], run.recipe.training.batch, run.recipe.training.steps)
    rows: list[dict[str, Any]] = []
    with progress("norms", len(CRITERIA), "criteria") as advance:
        for settings in CRITERIA:
            criterion = make_criterion(settings, corpus.counts(), corpus["train"])
            fits, penalties = norms(model, criterion, windows, asked.windows)
            rows.append(_row(settings, fits, penalties, run.recipe.training.clip))
            advance(1)
    head = ["criterion", "alpha", "D'", "fit", "penalty", "windows with a penalty", "the fit's share of such a step"]
    table(
        f"gradient norms at {run.folder.name}, medians", head, [[str(value) for value in row.values()] for row in rows]
    )
    if asked.json:
        write_json(asked.json, {**environment(), "run": run.folder.name, "windows": asked.windows, "rows": rows})


def _row(settings: CriterionSettings, fits: list[float], penalties: list[float], clip: float) -> dict[str, Any]:
    """The last number: what clipping at `clip` leaves of the fit's own step, if both point in unrelated directions."""
    fit, penalty = float(np.median(fits)), float(np.median(penalties)) if penalties else 0.0
    left = min(1.0, clip / math.hypot(fit, penalty)) / min(1.0, clip / fit)
    return {
        "criterion": settings.name, "alpha": settings.alpha if settings.alpha > 0 else "", "subset": settings.subset,
        "fit": round(fit, 2), "penalty": round(penalty, 2), "with_penalty": len(penalties), "fit_share": round(left, 3),
    }  # fmt: skip


if __name__ == "__main__":
    main()

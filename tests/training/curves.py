"""Loss curves in float64 of one training, by however many processes run this: all criteria, a JSON file at the end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfnorm._util.devices import make_rng
from selfnorm._util.processes import ALONE, Processes, processes
from selfnorm.config.recipe import CriterionSettings, Model, Training
from selfnorm.criteria.build import make_criterion
from selfnorm.data.windows import Windows
from selfnorm.nn.model import build
from selfnorm.registry.criteria import CRITERIA
from selfnorm.training.exchange import Exchange
from selfnorm.training.loop import Place, train
from selfnorm.training.optimizer import Optimizer

V, B, T, STEPS = 40, 4, 5, 50
CASES: dict[str, dict[str, Any]] = {name: {} for name in CRITERIA}
CASES |= {f"nce {shared}": {"shared": shared} for shared in ("step", "token")}
CASES |= {"nce bigram": {"shared": "token", "noise": "bigram"}, "nce transformer": {"encoder": "transformer"}}
CASES |= {"nce_r contexts": {"subset": "contexts"}, "infrequent windows": {"subset": "windows"}}


def curve(case: str, us: Processes = ALONE) -> list[float]:
    """Fit and penalty, summed, after each of the steps."""
    settings, name = dict(CASES[case]), case.split()[0]
    ids, info, rng = np.random.default_rng(0).integers(V, size=B * T * STEPS + B), CRITERIA[name], make_rng(1)
    encoder = settings.pop("encoder", "lstm")
    criterion = make_criterion(CriterionSettings(name=name, k=6, **settings), np.bincount(ids, minlength=V), ids)
    shape = Model(d=8, dropout=0.0, encoder=encoder, memory=6)
    model = build(shape, V, rng, info.output, info.normalizer).double()
    criterion.start(model.output)
    training = Training(epochs=1, batch=B, steps=T, learning_rate=0.5, clip=2.0)
    windows = Windows(ids, B, T, us.device, us.rank, us.size)
    optimizer = Optimizer(model, training, "adamw" if encoder == "transformer" else "sgd")
    exchange = Exchange(us) if us.size > 1 else None
    at, sums = Place(), []
    for _ in train(model, criterion, windows, training, rng, at, optimizer, exchange):
        sums.append(at.fit + at.penalty)
    return np.diff([0.0, *sums]).tolist()


def main() -> None:
    torch.set_num_threads(1)
    with processes("cpu") as us:
        found = {case: curve(case, us) for case in CASES}
        Path(f"{sys.argv[1]}.{us.rank}").write_text(json.dumps({"size": us.size, "curves": found}))


if __name__ == "__main__":
    main()

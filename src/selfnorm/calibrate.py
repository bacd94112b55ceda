"""Calibrate a trained model: learn log Z from c and take it out of every score. No retraining.

    shift    the validation mean of log Z                     folds into the bias, free
    affine   least squares of log Z on c                      folds into the rows, free
    mlp      a small network of c, on training contexts       (d·h + h² + 256·d) multiplications a word

log Z can be computed exactly at any c and is a smooth function of it, so it can be learnt from the model itself:
no labels, no new text, the probabilities stay what they were.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfnorm.errors import UserError
from selfnorm.measure import contexts, validate
from selfnorm.model import LanguageModel
from selfnorm.normalizers import Affine, Mlp
from selfnorm.output import Output

Advance = Callable[[float], None]


@dataclass(frozen=True)
class Budget:
    """How much the network may cost to fit."""

    contexts: int = 1_000_000
    passes: float = 4
    minutes: float = 30.0
    hidden: tuple[int, ...] = (128, 128)
    frequent: int = 256

    def __post_init__(self) -> None:
        possible = 0 < self.passes < math.inf and self.minutes > 0 and self.frequent >= 0
        if min(self.contexts, *self.hidden) < 1 or not possible:
            raise UserError(
                "calibrate: contexts, passes, minutes and every hidden size must be above 0, frequent at least 0."
            )


def shift(model: LanguageModel, valid: np.ndarray) -> Affine:
    """g = mu_z of the validation text (section 5.2 of the paper)."""
    normalizer = Affine(model.output.d)
    with torch.no_grad():
        normalizer.b.fill_(validate(model, valid)["mu_z"])
    return normalizer


def affine(model: LanguageModel, train: np.ndarray, budget: Budget, advance: Advance = lambda n: None) -> Affine:
    """Least squares of log Z on (c, 1), from sums of products in float64: contexts are never held."""
    return _least_squares(_pairs(model, train, budget.contexts), model.output.d, advance)


def _least_squares(pairs: Iterable[tuple[Tensor, Tensor]], d: int, advance: Advance = lambda n: None) -> Affine:
    gram, moment = torch.zeros(d + 1, d + 1, dtype=torch.float64), torch.zeros(d + 1, dtype=torch.float64)
    for c, log_z in pairs:
        x = torch.cat([c.double(), torch.ones(len(c), 1, dtype=torch.float64)], dim=1)
        gram += x.t() @ x
        moment += x.t() @ log_z.double()
        advance(len(c))
    return _solved(gram, moment)


def _solved(gram: Tensor, moment: Tensor) -> Affine:
    ridge = 1e-8 * gram.diagonal().mean() * torch.eye(len(gram), dtype=torch.float64)
    solution = torch.linalg.solve(gram + ridge, moment)
    normalizer = Affine(len(gram) - 1)
    with torch.no_grad():
        normalizer.a.copy_(solution[:-1])
        normalizer.b.copy_(solution[-1])
    return normalizer


def mlp(
    model: LanguageModel,
    train: np.ndarray,
    budget: Budget,
    rng: torch.Generator,
    advance: Advance = lambda n: None,
) -> tuple[Mlp, Budget]:
    """Fit g(c) to exact log Z on training contexts, dropout off. Contexts stream through a file, not memory.

    A normalizer the model learned itself is left out of log Z, because the network takes its place: a log-sum of the rows
    is learnt four times better than what another network left of it (docs/calibration.md).
    Gives the network and what of the budget was used, which is less of it where time ran out.
    """
    start, d = time.monotonic(), model.output.d
    model = model.with_output(model.output.without_normalizer())
    count = min(budget.contexts, len(train) - 1)
    c_file, z_file = _file(count, d), _file(count)
    place = 0
    for c, log_z in _pairs(model, train, count):
        c_file[place : place + len(c)], z_file[place : place + len(c)] = c.numpy(), log_z.numpy()
        place += len(c)
        advance(len(c))
        if time.monotonic() - start > 30 * budget.minutes:  # half of the time, so that the other half can fit
            break
    network = Mlp(d, budget.hidden, min(budget.frequent, model.output.V))
    look_up(network, model.output)
    passes = fit(network, c_file[:place], z_file[:place], budget, rng, advance, start)
    return network.requires_grad_(False), replace(budget, contexts=place, passes=passes)


def _file(*shape: int) -> np.ndarray:
    """Numbers on disk under no name: the space is free again when the process ends, however it ends."""
    with tempfile.TemporaryFile(prefix="selfnorm-") as handle:
        if hasattr(os, "posix_fallocate"):  # a full disk is an error now rather than a dead process later
            os.posix_fallocate(handle.fileno(), 0, 4 * math.prod(shape))
        return np.memmap(handle, np.float32, "w+", shape=shape)


def look_up(network: Mlp, output: Output) -> None:
    """Start the rows of the frequent words where the output layer has them: ids are by falling count."""
    if network.frequent is not None:
        count = network.frequent.out_features
        with torch.no_grad():
            network.frequent.weight.copy_(output.weight[:count])
            network.frequent.bias.copy_(output.bias[:count].view(-1))


def fit(
    network: Mlp, c: np.ndarray, log_z: np.ndarray, budget: Budget, rng: torch.Generator,
    advance: Advance = lambda n: None, start: float | None = None,
) -> float:  # fmt: skip
    """Bring network(c) near log Z, for c (n, d) and log Z (n,); `start` is when the time budget began to run. Gives the passes made."""
    with torch.no_grad():
        pieces = ((network.features(x), z) for x, z in _pieces(c, log_z))
        network.affine.load_state_dict(_least_squares(pieces, network.affine.a.numel()).state_dict())
        network.scatter(rng)
    return _descend(network, c, log_z, budget, rng, start or time.monotonic(), advance)


def _pairs(model: LanguageModel, ids: np.ndarray, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """(c (n, d), exact log Z (n,)) up to `count` contexts, from 64 streams spread over the text."""
    for _, c, _ in contexts(model, ids, streams=64, T=32):
        c = c[:count]
        yield c, model.output.log_z(c)
        count -= len(c)
        if count <= 0:
            return


def _pieces(c_file: np.ndarray, z_file: np.ndarray, size: int = 65_536) -> Iterator[tuple[Tensor, Tensor]]:
    for at in range(0, len(c_file), size):
        yield torch.from_numpy(c_file[at : at + size]), torch.from_numpy(z_file[at : at + size])


def _descend(
    normalizer: Mlp,
    c_file: np.ndarray,
    z_file: np.ndarray,
    budget: Budget,
    rng: torch.Generator,
    start: float,
    advance: Advance,
) -> float:
    """AdamW with a one-cycle rate on the squared error; stops early at the time budget. Gives the passes made."""
    size, count, made = 512, len(c_file), 0
    steps = math.ceil(budget.passes * -(-count // size))
    optimizer = torch.optim.AdamW(normalizer.parameters(), lr=2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps + 1, pct_start=0.15)
    for c, log_z in _batches(c_file, z_file, size, steps, rng):
        loss = (normalizer(c) - log_z).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        advance(len(c))
        made += 1
        if time.monotonic() - start > 60 * budget.minutes:
            break
    return max(0.01, round(budget.passes * made / steps, 2))


def _batches(
    c_file: np.ndarray, z_file: np.ndarray, size: int, steps: int, rng: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Shuffled batches: random large pieces of the file, shuffled inside, so that reading stays sequential."""
    piece = min(len(c_file), 131_072)
    while True:
        for at in torch.randperm(-(-len(c_file) // piece), generator=rng).tolist():
            c = torch.from_numpy(c_file[at * piece : (at + 1) * piece])
            log_z = torch.from_numpy(z_file[at * piece : (at + 1) * piece])
            for chosen in torch.split(torch.randperm(len(c), generator=rng), size):
                yield c[chosen], log_z[chosen]
                steps -= 1
                if steps <= 0:
                    return


def facts(before: dict[str, float], after: dict[str, float], seconds: float, budget: Budget | None) -> dict[str, Any]:
    """What calibration.json says beside the kind: numbers on the validation text, which only shift was fitted on, and what it cost."""
    spent: dict[str, Any] = {} if budget is None else asdict(budget)
    return {"valid_before": before, "valid_after": after, "seconds": round(seconds, 1), **spent}

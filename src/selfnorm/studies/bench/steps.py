"""Seconds per training step of each criterion against the vocabulary, and the floors.

lstm      the recurrent layers' own forward and backward on the same window: the floor of a sampled criterion
products  three matrix products of the output layer, plus the lstm: the floor of an exact one

A criterion that normalizes a share of the contexts is timed with single contexts of every window, not with whole windows
now and then: the same cost on average, and the same at every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfnorm._util.console import Advance
from selfnorm._util.devices import HOST, device_of, host_of, is_host, make_rng, synchronize
from selfnorm._util.memory import megabytes_of
from selfnorm.config.recipe import CriterionSettings, Model
from selfnorm.criteria.build import make_criterion
from selfnorm.data.windows import Window
from selfnorm.nn.model import LanguageModel, build
from selfnorm.nn.recurrent import Recurrent
from selfnorm.registry.criteria import CRITERIA
from selfnorm.studies.bench.timing import Work, interleaved
from selfnorm.training.sgd import step

B, T = 20, 20
USUAL = "usual torch program"
LARGEST = 300_000  # exact criteria are not timed above this many words: a step takes tens of seconds


def zipf_counts(V: int) -> np.ndarray:
    return np.maximum(1, 1e7 / np.arange(1, V + 1)).astype(np.int64)


def random_window(V: int, rng: torch.Generator, device: torch.device = HOST) -> Window:
    """Word ids with Zipf's law, as in text."""
    ids = (torch.rand(2, B, T, generator=rng, device=device) * np.log(V)).exp().long().clamp(max=V - 1)
    return Window(ids[0], ids[1])


def one_step(model: LanguageModel, settings: CriterionSettings, counts: np.ndarray, rng: torch.Generator) -> Work:
    """A whole training step as `train` makes it."""
    device = device_of(model)
    criterion = make_criterion(settings, counts, np.arange(1000), device=device)
    parameters = list(model.parameters())

    def work() -> None:
        window = random_window(len(counts), rng, device)
        c, _ = model.contexts(window.inputs, None, rng)
        criterion.backward(model.output, c, window, rng, 1 / B)
        step(parameters, 1e-3, 5.0)

    return work


def lstm_floor(model: LanguageModel, rng: torch.Generator) -> Work:
    """Forward and backward of the recurrent layers alone, on vectors already looked up."""
    encoder = cast(Recurrent, model.encoder)
    layers = list(encoder.layers.parameters())
    x = torch.rand(T, B, encoder.d, generator=rng, device=device_of(model))

    def work() -> None:
        y: Tensor = x.requires_grad_()
        for layer in encoder.layers:
            y, _ = layer(y)
        y.sum().backward()  # type: ignore[no-untyped-call]
        for p in layers:
            p.grad = None
        x.grad = None

    return work


def products_floor(model: LanguageModel, rng: torch.Generator) -> Work:
    """m = c·Wᵀ, dc = G·W, dW = Gᵀ·c: what exact normalization cannot avoid."""
    weight = model.output.weight.detach()
    c = torch.rand(B * T, model.output.d, generator=rng, device=weight.device)

    def work() -> None:
        m = c @ weight.t()
        m @ weight
        m.t() @ c

    return work


class UsualProgram(nn.Module):
    """What a torch user writes: dense tables, nn.Linear, cross_entropy, clip_grad_norm_, SGD."""

    def __init__(self, V: int, d: int) -> None:
        super().__init__()
        self.table, self.lstm, self.out = nn.Embedding(V, d), nn.LSTM(d, d, 2, dropout=0.5), nn.Linear(d, V)
        self.drop, self.sgd = nn.Dropout(0.5), torch.optim.SGD(self.parameters(), lr=1e-3)

    def step(self, window: Window) -> None:
        x, _ = self.lstm(self.drop(self.table(window.inputs.t())))
        m = self.out(self.drop(x)).view(-1, self.out.out_features)
        loss = F.cross_entropy(m, window.targets.t().reshape(-1), reduction="sum") / B
        self.sgd.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.parameters(), 5.0)
        self.sgd.step()


def planned(ds: Sequence[int], Vs: Sequence[int], criteria: Sequence[str]) -> list[tuple[int, int, list[str]]]:
    """What is timed together: d, V and the names, floors included."""
    lookups = {name: _free(name) for name in criteria}
    return [(d, V, _names(V, lookups)) for d in ds for V in Vs]


def _free(name: str) -> bool:
    return CRITERIA.find(name).normalizes == 0


def _names(V: int, free: dict[str, bool]) -> list[str]:
    exact = V <= LARGEST
    mine = [name for name, is_free in free.items() if exact or is_free]
    floors = ["lstm", "products"] if exact else ["lstm"]
    return [*floors, *mine, *([USUAL] if exact else [])]


def bench_steps(
    d: int, V: int, names: Sequence[str], rounds: int, device: torch.device, advance: Advance
) -> list[dict[str, Any]]:
    """One row per name: median seconds per step, the floor's seconds, the ratio and the memory in addition to the model."""
    rng, counts = make_rng(0), zipf_counts(V)
    plain = build(Model(d=d), V, rng).to(device)
    rng = rng if is_host(device) else make_rng(0, device)
    works = {name: _work(name, plain, counts, rng) for name in names}
    big = V > 50_000 and len(works) > 3
    seconds = interleaved(
        works, min(rounds, 3) if big else rounds, 1 if big else 2, advance, lambda: synchronize(device)
    )
    return [_row(name, d, V, seconds, megabytes_of(work)) for name, work in works.items()]


def _work(name: str, plain: LanguageModel, counts: np.ndarray, rng: torch.Generator) -> Work:
    d, V, device = plain.output.d, len(counts), device_of(plain)
    if name == "lstm":
        return lstm_floor(plain, rng)
    if name == "products":
        return products_floor(plain, rng)
    if name == USUAL:
        with torch.device(device):
            program = UsualProgram(V, d)
        return lambda: program.step(random_window(V, rng, device))
    line = CRITERIA.find(name)
    special = line.output != "full" or line.normalizer
    model = build(Model(d=d), V, host_of(rng), line.output, line.normalizer).to(device) if special else plain
    return one_step(model, CriterionSettings(name=name, subset="contexts"), counts, rng)


def _row(name: str, d: int, V: int, seconds: dict[str, float], megabytes: float | None) -> dict[str, Any]:
    exact = (name in CRITERIA and CRITERIA[name].normalizes == 1) or name == USUAL
    floor = seconds["lstm"] + (seconds.get("products", 0.0) if exact else 0.0)
    return {
        "criterion": name, "d": d, "V": V, "seconds": seconds[name], "floor_seconds": floor,
        "ratio": seconds[name] / floor, "megabytes": megabytes,
    }  # fmt: skip

"""Seconds per 1,000 words of scoring a text with and without log Z, and of the recurrent layers alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from selfnorm._util.console import Advance
from selfnorm._util.devices import device_of, make_rng, synchronize
from selfnorm._util.memory import megabytes_of
from selfnorm.config.recipe import Model
from selfnorm.evaluation.measure import contexts
from selfnorm.nn.model import LanguageModel, build
from selfnorm.studies.bench.steps import random_window
from selfnorm.studies.bench.timing import Work, interleaved

NAMES = ("lstm", "unnormalized", "normalized")


def bench_scoring(d: int, V: int, rounds: int, device: torch.device, advance: Advance) -> list[dict[str, Any]]:
    """Rows lstm, unnormalized and normalized, on a window of 20 x 20 words."""
    rng = make_rng(0)
    model = build(Model(d=d), V, rng).requires_grad_(False)
    window = random_window(V, rng).to(device)
    model.to(device)
    words = window.targets.numel()
    works = _works(model, window.inputs, window.targets)
    seconds = interleaved(
        works, rounds if V < 200_000 else min(rounds, 3), advance=advance, wait=lambda: synchronize(device)
    )
    return [_row(name, d, V, seconds, words, megabytes_of(work)) for name, work in works.items()]


def time_text(model: LanguageModel, ids: np.ndarray, advance: Advance, rounds: int = 3) -> dict[str, float]:
    """Seconds to score a whole text without and with log Z, medians of turns taken in one go."""

    def unnormalized() -> None:
        for _, c, w in contexts(model, ids):
            model.output.m(w, c)

    def normalized() -> None:
        for _, c, w in contexts(model, ids):
            m, log_z = model.output.target_and_log_z(w, c)
            m - log_z

    with torch.no_grad():
        device = device_of(model)
        works = {"unnormalized": unnormalized, "normalized": normalized}
        seconds = interleaved(works, rounds, 0, advance, lambda: synchronize(device))
    return {f"{name}_seconds": value for name, value in seconds.items()}


def _works(model: LanguageModel, inputs: torch.Tensor, targets: torch.Tensor) -> dict[str, Work]:
    def lstm() -> None:
        model.contexts(inputs, None)

    def unnormalized() -> None:
        c, _ = model.contexts(inputs, None)
        model.output.m(targets, c)

    def normalized() -> None:
        c, _ = model.contexts(inputs, None)
        m, log_z = model.output.target_and_log_z(targets, c)
        m - log_z

    return dict(zip(NAMES, (lstm, unnormalized, normalized), strict=True))


def _row(name: str, d: int, V: int, seconds: dict[str, float], words: int, megabytes: float | None) -> dict[str, Any]:
    return {
        "criterion": name, "d": d, "V": V, "seconds_per_1000_words": 1000 * seconds[name] / words,
        "floor_seconds": 1000 * seconds["lstm"] / words, "ratio": seconds[name] / seconds["lstm"],
        "times_unnormalized": seconds[name] / seconds["unnormalized"], "megabytes": megabytes,
    }  # fmt: skip

"""Seconds per 1,000 words of scoring a text with and without log Z, beside the recurrent layers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from selfnorm.bench.steps import random_window
from selfnorm.bench.timing import Work, interleaved
from selfnorm.memory import keep_freed_memory, megabytes_of
from selfnorm.model import LanguageModel, build
from selfnorm.recipe import Model


def bench_scoring(ds: Sequence[int], Vs: Sequence[int], rounds: int = 7, threads: int = 2) -> list[dict[str, Any]]:
    """Rows lstm, unnormalized, normalized for every d and V, on windows of 20 x 20 words."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    rows: list[dict[str, Any]] = []
    for d in ds:
        for V in Vs:
            rng = torch.Generator().manual_seed(0)
            model = build(Model(d=d), V, rng).requires_grad_(False)
            window = random_window(V, rng)
            words = window.targets.numel()
            works = _works(model, window.inputs, window.targets)
            seconds = interleaved(works, rounds if V < 200_000 else 3)
            rows += [_row(name, d, V, seconds, words, megabytes_of(work)) for name, work in works.items()]
    return rows


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

    return {"lstm": lstm, "unnormalized": unnormalized, "normalized": normalized}


def _row(name: str, d: int, V: int, seconds: dict[str, float], words: int, megabytes: float | None) -> dict[str, Any]:
    return {
        "criterion": name, "d": d, "V": V, "seconds_per_1000_words": 1000 * seconds[name] / words,
        "floor_seconds": 1000 * seconds["lstm"] / words, "ratio": seconds[name] / seconds["lstm"],
        "times_unnormalized": seconds[name] / seconds["unnormalized"], "megabytes": megabytes,
    }  # fmt: skip

"""Measure how normalized a model is: mu_z, sigma_z, perplexity, u_perplexity, and entropy against log Z."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfnorm._util.devices import device_of, to_host
from selfnorm._util.errors import UserError
from selfnorm._util.machine import command_line, machine, today
from selfnorm.data.windows import WARMUP, Window, evaluation_windows
from selfnorm.evaluation.measurement import Measurement
from selfnorm.evaluation.statistics import Array, block_sums, intervals, merged, numbers
from selfnorm.nn.encoders import State, restart
from selfnorm.nn.model import LanguageModel

Advance = Callable[[float], None]
MOST = 5000  # blocks that are resampled: those of a longer text are joined first


def contexts(model: LanguageModel, ids: np.ndarray, **how: int) -> Iterator[tuple[Window, Tensor, Tensor]]:
    """Walk a text with dropout off and the state carried: (window, counted c (n, d), counted targets (n,)).

    The window stays on the host, c and the targets are on the model's device.
    """
    if len(ids) < 2:
        raise UserError(f"The text has {len(ids)} tokens; measuring needs at least 2.")
    state: State | None = None
    device = device_of(model)
    how.setdefault("warmup", max(WARMUP, getattr(model.encoder, "reach", 0)))
    with torch.no_grad():
        for window in evaluation_windows(ids, **how):
            here = window.to(device)
            c, state = model.contexts(here.inputs, restart(state, here.fresh))
            if here.counted is not None and window.counted is not None and bool(window.counted.any()):
                yield window, c[here.counted], here.targets[here.counted]


@dataclass
class Words:
    """Per counted word of a text: log Z, -log p and entropy, float64."""

    log_z: Array
    nll: Array
    h: Array


def per_word(model: LanguageModel, ids: np.ndarray, entropy: bool = True, advance: Advance = lambda n: None) -> Words:
    """log Z, -log p and entropy for every word but the first, stream by stream."""
    order, columns, done = np.empty(len(ids), dtype=np.int64), np.empty((3, len(ids))), 0
    for window, c, w in contexts(model, ids):
        if entropy:
            log_z, h = model.output.log_z_and_entropy(c)
            m = model.output.m(w, c)
        else:
            m, log_z = model.output.target_and_log_z(w, c)
            h = torch.zeros_like(m)
        assert window.counted is not None
        # into arrays allocated before: small ones allocated in between would fragment the memory of the freed score blocks
        now, done = slice(done, done + len(w)), done + len(w)
        columns[:, now] = to_host(torch.stack([log_z, log_z - m, h]))
        order[now] = np.nonzero(window.counted.numpy())[0]
        advance(len(w))
    streams = np.argsort(order[:done], kind="stable")  # back into the order of the text
    log_z_, nll_, h_ = columns[:, :done][:, streams]
    return Words(log_z_, nll_, h_)


def validate(model: LanguageModel, ids: np.ndarray) -> dict[str, float]:
    """The quick numbers for a history line: no entropy, no intervals."""
    words = per_word(model, ids, entropy=False)
    found = numbers(block_sums(words.log_z, words.nll, words.h))
    return {name: found[name] for name in ("mu_z", "sigma_z", "perplexity", "u_perplexity")}


def measure(
    model: LanguageModel,
    ids: np.ndarray,
    signature: str = "",
    seed: int = 0,
    advance: Advance = lambda n: None,
    theory: dict[str, Any] | None = None,
    names: Sequence[str] | None = None,
) -> Measurement:
    """All the numbers of a model on a text, each with a 95 % block-bootstrap interval."""
    start = time.perf_counter()
    words = per_word(model, ids, advance=advance)
    sums = block_sums(words.log_z, words.nll, words.h)
    return replace(
        of_sums(sums, signature, seed, time.perf_counter() - start),
        histogram=_histogram(words.log_z),
        entropy_histogram=_entropy_histogram(words),
        theory=theory or {},
        notes={} if names is None else {"examples": _examples(words, ids, names)},
    )


def of_sums(sums: Array, signature: str, seed: int, seconds: float) -> Measurement:
    """The numbers and intervals that follow from sums over blocks of words, wherever these were made."""
    found: dict[str, Any] = dict(numbers(sums))
    return Measurement(
        signature=signature,
        **found,
        words=int(sums[:, 0].sum()),
        seconds=round(seconds, 2),
        seed=seed,
        command=command_line(),
        date=today(),
        machine=machine(),
        intervals=intervals(merged(sums, MOST)),
        blocks=[[float(f"{x:.9g}") for x in row] for row in merged(sums)],
    )


def _examples(
    words: Words, ids: np.ndarray, names: Sequence[str], count: int = 8, before: int = 5
) -> list[dict[str, Any]]:
    """The contexts where log Z deviates most from its mean, with the word that followed, as the paper shows them."""
    found: list[dict[str, Any]] = []
    for place in np.argsort(-np.abs(words.log_z - words.log_z.mean())):
        context = " ".join(names[i] for i in ids[max(0, place + 1 - before) : place + 1])
        if all(context != known["context"] for known in found):
            row = {"log_z": round(float(words.log_z[place]), 3), "entropy": round(float(words.h[place]), 3)}
            found.append({"context": context, "next": names[ids[place + 1]], **row})
        if len(found) == count:
            break
    return found


def _histogram(log_z: Array, bins: int = 60) -> dict[str, Any]:
    low, high = np.quantile(log_z, [0.0005, 0.9995])
    counts, edges = np.histogram(log_z.clip(low, high), bins=bins, range=_open(low, high))
    return {"counts": counts.tolist(), "low": float(edges[0]), "high": float(edges[-1])}


def _entropy_histogram(words: Words, bins: int = 40) -> dict[str, Any]:
    low, high = np.quantile(words.log_z, [0.0005, 0.9995])
    box = [_open(0.0, float(words.h.max())), _open(low, high)]
    counts, h_edges, z_edges = np.histogram2d(words.h, words.log_z.clip(low, high), bins=bins, range=box)
    return {
        "counts": counts.astype(int).tolist(),
        "entropy": [float(h_edges[0]), float(h_edges[-1])],
        "log_z": [float(z_edges[0]), float(z_edges[-1])],
    }


def _open(low: float, high: float) -> tuple[float, float]:
    return (float(low), float(high)) if high > low else (float(low) - 0.5, float(low) + 0.5)

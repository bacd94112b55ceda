"""The audit from a model and texts to one dictionary, written as audit.json and audit.html."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfnorm._util.console import progress, say
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment
from selfnorm._util.memory import peak_megabytes
from selfnorm.calibration.normalize import digest_of
from selfnorm.hf.adapter import Adapter
from selfnorm.hf.audit import estimators, numbers, text
from selfnorm.hf.audit.ceiling import Ceiling, ceiling
from selfnorm.hf.audit.collect import Array, Walked, walk
from selfnorm.hf.opening import Opened
from selfnorm.nn.normalizers import Normalizer
from selfnorm.registry.calibrations import CALIBRATIONS

RESULT = "audit.json"
NORMS = {"mean": "mean", "smallest": "min", "median": "median", "largest": "max"}


def audit(
    opened: Opened, files: Sequence[Path], to: Path, window: int = 512, tokens: int = 20_000, kinds: Sequence[str] = tuple(CALIBRATIONS)
) -> dict[str, Any]:  # fmt: skip
    """Audit a model on texts: estimates are fitted on the first one and measured on all. Going on where an earlier call stopped."""
    estimators.check_kinds(kinds, tuple(CALIBRATIONS))
    adapter = opened.adapter
    longest = getattr(opened.adapter.model.config, "max_position_embeddings", None)
    texts = [text.read(file, opened.tokenizer, window, tokens, longest) for file in files]
    bound = ceiling(adapter, texts[0].window(0))
    walked = [_walk(opened, one, to) for one in texts]
    found = {
        "kind_of_result": "audit",
        "model": opened.source.label,
        "type": str(getattr(adapter.model.config, "model_type", "?")),
        "dtype": str(adapter.linear.weight.dtype).removeprefix("torch."),
        "command": command_line(),
        **environment(),
        "head": about_head(adapter),
        "texts": [numbers.of_text(one, opened.tokenizer) for one in walked],
        "floor": {one.text.name: estimators.floor(adapter.head, one) for one in walked},
        "estimates": _estimates(adapter, walked, kinds, to, bound),
        "ceiling": {"head": bound.head, "body": bound.body, "ratio": bound.ratio, "gain": bound.gain},
        "sentences": bound.sentences(),
        "peak_megabytes": round(peak_megabytes()),
    }
    write_json(to / RESULT, found)
    return found


def _walk(opened: Opened, one: text.Text, to: Path) -> Walked:
    name = f"{one.name}-{one.fingerprint(digest_of(opened.adapter.head), opened.source.label)}"
    folder = to / "contexts" / name
    with progress(f"read {one.name}", one.windows * one.counted, "tokens") as advance:
        return walk(opened.adapter, one, folder, advance)


def about_head(adapter: Adapter) -> dict[str, Any]:
    head = adapter.head
    norms = torch.cat([piece.float().norm(dim=1) for piece in torch.split(head.weight.detach(), 8192)]).double()
    embedding = adapter.model.get_input_embeddings()
    return {
        "V": head.V,
        "d": head.d,
        "log_V": float(np.log(head.V)),
        "tied": getattr(embedding, "weight", None) is adapter.linear.weight,
        "bias": adapter.linear.bias is not None,
        "scale": adapter.link.scale,
        "cap": adapter.link.cap,
        "row_norms": {name: float(getattr(norms, how)()) for name, how in NORMS.items()},
    }


def _estimates(
    adapter: Adapter, walked: Sequence[Walked], kinds: Sequence[str], to: Path, bound: Ceiling
) -> list[dict[str, Any]]:
    """Rows of estimate and text; "none" first: log Z skipped as it is."""
    first = walked[0]
    chosen = [
        estimators.places(estimators.held_out(one) if one is first else np.ones(len(one.log_z), dtype=bool))
        for one in walked
    ]
    rows = [_row("none", 0.0, one.log_z[at], one, at, bound) for one, at in zip(walked, chosen, strict=True)]
    for kind, normalizer in estimators.fitted(adapter.head, first, kinds, to, lambda kind: say(f"fit {kind}")):
        cost = normalizer.multiply_adds() / adapter.head.weight.numel()
        for one, at in zip(walked, chosen, strict=True):
            rows.append(_row(kind, cost, estimators.left(normalizer, one, at), one, at, bound))
        _free(normalizer)
        del normalizer
        gc.collect()
    return rows


def _free(normalizer: Normalizer) -> None:
    """Let go of rows that a runtime keeps: several at once would need the memory of several heads."""
    normalizer.__dict__.pop("_rows", None)


def _row(kind: str, cost: float, rest: Array, one: Walked, at: np.ndarray, bound: Ceiling) -> dict[str, Any]:
    entropy = one.entropy[at]
    shown = np.linspace(0, len(at) - 1, min(600, len(at))).astype(np.int64)
    gain = (bound.body + bound.head) / (bound.body + cost * bound.head)
    return {
        "estimate": kind, "text": one.text.name, "cost": cost, "gain": gain, **estimators.row(rest, one, at),
        "by_entropy": _by_entropy(rest, entropy),
        "points": {"entropy": entropy[shown].round(3).tolist(), "left": rest[shown].round(4).tolist()},
    }  # fmt: skip


def _by_entropy(rest: Array, entropy: Array) -> list[dict[str, float]]:
    bands = []
    for low, high in pairwise(numbers.ENTROPIES):
        inside = (entropy >= low) & (entropy < high)
        if inside.sum() > 1:
            some = rest[inside]
            bands.append({"from": low, "contexts": len(some), "sigma_z": float(some.std()), "mu_z": float(some.mean())})
    return bands

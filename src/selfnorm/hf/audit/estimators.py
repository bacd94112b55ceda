"""Estimates of log Z side by side, fitted on one part of a text and measured on another part and on another text; and what
half precision alone costs, which no estimate needs to be better than."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfnorm._util.errors import UserError
from selfnorm.calibration.normalize import fit_normalizer, save_normalizer
from selfnorm.hf.audit.collect import Array, Walked
from selfnorm.nn.normalizers import Normalizer
from selfnorm.nn.output import Output, link_of

EVERY = 5  # of five windows one is held out
MEASURED = 4096  # contexts of a text that estimates are measured on
SIZES: dict[str, dict[str, Any]] = {"mlp": {"passes": 8}}
FLOOR = 256  # contexts for the precision of half-precision logits


def held_out(walked: Walked) -> np.ndarray:
    """Which contexts of the fitted text are left out: whole windows, spread over the text."""
    windows = walked.text.windows
    chosen = np.arange(windows) % EVERY == EVERY - 1 if windows >= EVERY else np.arange(windows) == windows - 1
    left_out: np.ndarray = chosen[walked.window_of]
    return left_out


def places(chosen: np.ndarray, most: int = MEASURED) -> np.ndarray:
    """At most so many of the chosen contexts, evenly spread."""
    every = np.flatnonzero(chosen)
    return every if len(every) <= most else every[np.linspace(0, len(every) - 1, most).astype(np.int64)]


def fitted(
    head: Output, walked: Walked, kinds: Sequence[str], folder: Path, tried: Callable[[str], None] = lambda kind: None
) -> Iterator[tuple[str, Normalizer]]:
    """A normalizer of each kind, fitted on the text without its held-out windows, and stored as KIND.safetensors."""
    for kind in kinds:
        tried(kind)
        normalizer = fit_normalizer(head, _fit_pieces(walked), kind, progress=False, **SIZES.get(kind, {}))
        save_normalizer(folder / f"{kind}.safetensors", normalizer, head)
        yield kind, normalizer


def _fit_pieces(walked: Walked, size: int = 4096) -> Iterator[Tensor]:
    chosen = np.flatnonzero(~held_out(walked))
    for at in range(0, len(chosen), size):
        yield torch.from_numpy(walked.c[chosen[at : at + size]])


def left(normalizer: Normalizer, walked: Walked, at: np.ndarray) -> Array:
    """log Z less its estimate in the contexts named: what the estimate leaves."""
    with torch.no_grad():
        estimates = [
            normalizer(torch.from_numpy(walked.c[piece])).double().numpy()
            for piece in np.array_split(at, -(-len(at) // 512))
        ]
    rest: Array = walked.log_z[at] - np.concatenate(estimates)
    return rest


def row(rest: Array, walked: Walked, at: np.ndarray) -> dict[str, float]:
    """The numbers of one estimate on one text."""
    log_p = walked.log_p[at]
    return {
        "contexts": len(at),
        "mu_z": float(rest.mean()),
        "sigma_z": float(rest.std()),
        "quantile_99": float(np.quantile(np.abs(rest), 0.99)),
        "perplexity": math.exp(-float(log_p.mean())),
        "u_perplexity": float(np.exp(np.float64(-(log_p + rest).mean()).clip(-700, 700))),
        "log_p_above_0": float((log_p + rest > 0).mean()),
    }


def floor(head: Output, walked: Walked) -> dict[str, float]:
    """The error of log p (root mean square) from bfloat16 logits, with the log-sum in float32 and in bfloat16."""
    at = places(np.ones(len(walked.log_z), dtype=bool), FLOOR)
    c, w = torch.from_numpy(walked.c[at]), torch.from_numpy(walked.columns["token"][at].astype(np.int64))
    rows = head.weight if head.weight.dtype == torch.bfloat16 else None
    errors: dict[str, list[Tensor]] = {"bf16_logits": [], "bf16_log_sum": []}
    exact = torch.from_numpy(walked.log_p[at])
    with torch.no_grad():
        for piece in torch.split(torch.arange(len(at)), 32):
            m = torch.empty(len(piece), head.V, dtype=torch.bfloat16)
            for words in torch.split(torch.arange(head.V), 8192):
                weight = (head.weight if rows is None else rows)[words].bfloat16().float()
                m[:, words] = link_of(head.link)(
                    c[piece].bfloat16().float() @ weight.t() + head.bias[words].float().t()
                ).bfloat16()
            m_w = m.gather(1, w[piece].unsqueeze(1)).squeeze(1).float()
            errors["bf16_logits"].append(m_w - m.float().logsumexp(1) - exact[piece])
            errors["bf16_log_sum"].append((m_w.bfloat16() - m.logsumexp(1)).float() - exact[piece])
    return {name: float(torch.cat(values).double().square().mean().sqrt()) for name, values in errors.items()}


def check_kinds(kinds: Sequence[str], known: Sequence[str]) -> None:
    for kind in kinds:
        if kind not in known:
            raise UserError(f'estimate "{kind}" is unknown. Known: {", ".join(known)}.')

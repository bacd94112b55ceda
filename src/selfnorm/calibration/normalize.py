"""Calibrate anybody's output layer: rows, contexts, and nothing else of the model.

head = Output.from_linear(model.lm_head)
g = fit_normalizer(head, contexts)            # contexts: a tensor (n, d), or an iterable of such tensors
head.with_normalizer(g).m(w, c)               # ≈ log p(w|c), without a sum over V
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfnorm._util.console import progress as bar
from selfnorm._util.console import silent
from selfnorm._util.devices import make_rng, moved
from selfnorm._util.errors import UserError
from selfnorm._util.files import atomic
from selfnorm._util.tensors import bytes_of, read_tensors, write_tensors
from selfnorm.calibration.base import Calibration, Contexts, Task, make_budget
from selfnorm.calibration.choose import choose
from selfnorm.calibration.heldout import held_out
from selfnorm.nn.normalizers import Normalizer
from selfnorm.nn.output import Output
from selfnorm.registry import load
from selfnorm.registry.calibrations import CALIBRATIONS

BLOCK, EVERY = 64, 10  # of every ten blocks of 64 contexts, one is held out


def fit_normalizer(
    head: Output,
    contexts: Tensor | Iterable[Tensor],
    kind: str = "auto",
    cost: float | None = None,
    sigma: float | None = None,
    counts: Tensor | None = None,
    seed: int = 1,
    progress: bool = True,
    **budget: Any,
) -> Normalizer:
    """Fit g(c) ≈ log Z to context vectors of any model; `g.held_out` says how good it is on contexts left out.

    head      Output.from_linear(linear) or Output.from_rows(weight, bias)
    contexts  (n, d), or an iterable of (n, d): what the model feeds its last linear layer. Streamed through a file
    kind      shift, affine, mlp, screen, int8; "auto" tries kinds and sizes and takes the best for the budget:
    cost      at most this share of the exact log Z's multiply-adds (default 0.15), or
    sigma     the cheapest that leaves at most this much on the contexts left out
    counts    (V,) start mlp from the rows with the largest of these numbers; by default, from those that log Z needs most
    budget    passes, minutes, hidden, frequent, rank, top, preview: as `selfnorm calibrate` has them

    >>> import torch
    >>> rng = torch.Generator().manual_seed(0)
    >>> head = Output.from_rows(torch.randn(50, 8, generator=rng))
    >>> g = fit_normalizer(head, torch.randn(2000, 8, generator=rng), "int8", top=5, progress=False)
    >>> g.held_out.sigma_z < 0.1 * g.held_out.sigma_z_before
    True
    """
    if kind != "auto" and (cost is not None or sigma is not None):
        raise UserError(f'cost and sigma choose a kind: leave kind = "{kind}" out, or give its size instead.')
    if kind != "auto":
        CALIBRATIONS.find(kind)
    if not isinstance(head, Output):
        raise UserError(
            f"head is a {type(head).__name__}; give Output.from_linear(linear) or Output.from_rows(weight, bias)."
        )
    if head.normalizer is not None:
        raise UserError("The head has a normalizer already: give head.without_normalizer().")
    counts = None if counts is None else torch.as_tensor(counts)
    if counts is not None and tuple(counts.shape) != (head.V,):
        raise UserError(f"counts must be ({head.V},), one number a word; found {tuple(counts.shape)}.")
    rows = _spool(contexts, head.d)
    if len(rows) < 2 * EVERY:
        raise UserError(f"{len(rows)} contexts were given; at least {2 * EVERY} are needed.")
    size = min(BLOCK, len(rows) // EVERY)
    out = (np.arange(len(rows)) // size) % EVERY == EVERY - 1
    most = make_budget({**budget, "contexts": int((~out).sum())})
    device = head.weight.device
    rng = make_rng(seed, device)
    task = Task(head, _pieces(rows, ~out, device), _pieces(rows, out, device), most, counts, rng)
    with nullcontext() if progress else silent(), torch.inference_mode(False):
        if kind == "auto":
            normalizer = _chosen(task, 0.15 if cost is None and sigma is None else cost, sigma)
        else:
            how: Calibration = load(CALIBRATIONS[kind].make)()
            with bar(f"calibrate {kind}", how.work(most, most.contexts) or None, "contexts") as advance:
                normalizer, _ = how.fit(replace(task, advance=advance))
            normalizer.kind_name = kind
    normalizer.requires_grad_(False).held_out = held_out(head, normalizer, task.held_out)
    if not math.isfinite(normalizer.held_out.rms):
        raise UserError(f"{normalizer.kind_name} has no finite estimate on these contexts. Do they vary at all?")
    return normalizer


def _chosen(task: Task, cost: float | None, sigma: float | None) -> Normalizer:
    with bar("choose a calibration", None, "tried") as advance:
        one, normalizer, frontier = choose(task, cost, sigma, lambda _: advance(1))
    normalizer.kind_name, normalizer.frontier = one.kind, frontier
    return normalizer


def digest_of(head: Output) -> str:
    """What identifies a head: its rows, biases and link."""
    digest = hashlib.sha256(head.link.encode())
    for tensor in (head.weight, head.bias):
        for piece in torch.split(tensor.detach(), 4096):
            digest.update(piece.float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def save_normalizer(path: Path | str, normalizer: Normalizer, head: Output) -> None:
    """One safetensors file, with a digest of the head it belongs to."""
    about = {"kind": normalizer.kind_name, "head": digest_of(head)}
    tensors = {name: t.contiguous() for name, t in normalizer.state_dict().items()}
    with atomic(Path(path), bytes_of(tensors)) as temporary:
        write_tensors(temporary, tensors, about)


def load_normalizer(path: Path | str, head: Output) -> Normalizer:
    """A stored normalizer; refused for any head but the one it was fitted to."""
    tensors, about = read_tensors(Path(path))
    if about.get("head") != digest_of(head):
        raise UserError(f"{path} belongs to another head than this one ({head.V:,} x {head.d}). Fit it again.")
    try:
        normalizer: Normalizer = load(CALIBRATIONS.find(about.get("kind", "")).make)().load(tensors, head)
    except (KeyError, ValueError, RuntimeError):
        raise UserError(f"{path} does not hold a normalizer of this head. Fit it again.") from None
    normalizer.requires_grad_(False).kind_name = about["kind"]
    return normalizer


def _spool(contexts: Tensor | Iterable[Tensor], d: int) -> np.ndarray:
    """All contexts (n, d) as float32 in an unnamed file: they need not fit in memory."""
    with tempfile.TemporaryFile(prefix="selfnorm-") as handle:
        for c in [contexts] if isinstance(contexts, Tensor | np.ndarray) else contexts:
            c = c if isinstance(c, Tensor) else torch.from_numpy(np.asarray(c))
            if c.dim() != 2 or c.shape[1] != d:
                raise UserError(f"contexts must be (n, {d}), as the head's rows are; found {tuple(c.shape)}.")
            if not bool(torch.isfinite(c).all()):
                raise UserError(
                    f"contexts must be finite numbers; row {int((~torch.isfinite(c).all(1)).nonzero()[0])} is not."
                )
            handle.write(c.detach().float().cpu().contiguous().numpy().tobytes())
        size = handle.tell() // (4 * d)
        return np.memmap(handle, np.float32, "r+", shape=(size, d)) if size else np.zeros((0, d), np.float32)


def _pieces(rows: np.ndarray, chosen: np.ndarray, device: torch.device, size: int = 4096) -> Contexts:
    """The chosen rows; where fewer are asked for, evenly spread ones: contexts of several texts may come one text after another."""
    places = np.flatnonzero(chosen)

    def pieces(most: int) -> Iterator[Tensor]:
        some = places if most >= len(places) else places[np.linspace(0, len(places) - 1, most).astype(np.int64)]
        for at in range(0, len(some), size):
            yield moved(torch.from_numpy(np.asarray(rows[some[at : at + size]])), device)

    return pieces

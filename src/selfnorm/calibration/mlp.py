"""mlp: a small network of c, fitted to exact log Z on training contexts. (d·h + h² + frequent·d) multiplications a word."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from selfnorm._util.devices import HOST, device_of, host_of, moved, to_host, wide
from selfnorm.calibration.affine import least_squares
from selfnorm.calibration.base import Advance, Budget, Task, scratch_file
from selfnorm.nn.normalizers import Mlp
from selfnorm.nn.output import Output, scale_of
from selfnorm.registry.calibrations import multiply_adds

SAMPLE = 8192  # contexts that decide which rows matter, at most an eighth of all


class Network:
    """g = affine + network of (c, log-sum of some rows), dropout off. Contexts stream through a file, not memory.

    A normalizer that the model was trained with is left out of log Z, because the network takes its place: a log-sum of
    the rows is learnt four times better than what another network left of it (docs/calibration.md).
    """

    options = ("contexts", "passes", "minutes", "hidden", "frequent")

    def fit(self, task: Task) -> tuple[Mlp, Budget]:
        """The network, and the budget that was used: less of it where time ran out."""
        head = task.head.without_normalizer()
        budget = replace(task.budget, frequent=min(task.budget.frequent, head.V))
        c_file, z_file = scratch_file(budget.contexts, head.d), scratch_file(budget.contexts)
        place = 0
        for c, log_z in task.pairs(head):
            c_file[place : place + len(c)], z_file[place : place + len(c)] = to_host(c), to_host(log_z)
            place += len(c)
            task.advance(len(c))
            if time.monotonic() - task.start > 30 * budget.minutes:  # half of the time; the other half is for fitting
                break
        with torch.device(head.weight.device):
            network = Mlp(head.d, budget.hidden, budget.frequent)
        start_rows(network, head, rows_that_matter(head, c_file[:place], task.counts, budget.frequent))
        passes = fit(network, c_file[:place], z_file[:place], budget, task.rng, task.advance, task.start)
        return network.requires_grad_(False), replace(budget, contexts=place, passes=passes)

    def load(self, tensors: dict[str, Tensor], head: Output) -> Mlp:
        biases = [name for name in tensors if name.startswith("network.") and name.endswith(".bias")]
        biases.sort(key=lambda name: int(name.split(".")[1]))
        hidden = [len(tensors[name]) for name in biases[:-1]]
        with torch.device(head.weight.device):
            normalizer = Mlp(head.d, hidden, len(tensors.get("frequent.bias", ())))
        normalizer.load_state_dict(tensors)
        return normalizer.requires_grad_(False)

    def work(self, budget: Budget, count: int) -> float:
        return count * (1 + budget.passes)

    def cost(self, budget: Budget, V: int, d: int) -> float:
        return multiply_adds("mlp", d, {"hidden": budget.hidden, "frequent": budget.frequent}) or 0.0


def rows_that_matter(head: Output, c: np.ndarray, counts: Tensor | None, most: int) -> Tensor:
    """The words whose part of the sum is computed: those with the largest mean of log(1 - p(w|c))² over some contexts.

    log Z without word w is lower by -log(1 - p(w|c)), so this is what would be lost. A rare word that is certain in a few contexts
    comes before a frequent one that never is: that leaves half of what the most frequent words leave (docs/calibration.md).
    `counts` chooses the most frequent instead. Ids are never taken to be sorted by frequency.
    """
    if counts is None:
        counts = torch.zeros(head.V, dtype=wide(head.weight.device), device=head.weight.device)
        size = min(len(c), max(512, min(SAMPLE, len(c) // 8)))
        some = torch.from_numpy(c[np.linspace(0, len(c) - 1, size).astype(np.int64)]).to(head.weight.device)
        with torch.no_grad():
            for piece in torch.split(some, 64):
                p = head.all_m(piece).float().softmax(-1).clamp_(max=1 - 1e-6)
                counts += p.neg_().log1p_().square_().to(counts.dtype).sum(0)
    return counts.argsort(descending=True, stable=True)[:most].to(head.weight.device)


def start_rows(network: Mlp, head: Output, words: Tensor) -> None:
    """Start the network's rows where the output layer has them, with the scale of its scores."""
    if network.frequent is not None:
        with torch.no_grad():
            network.frequent.weight.copy_(head.weight[words]).mul_(scale_of(head.link))
            network.frequent.bias.copy_(head.bias[words].view(-1)).mul_(scale_of(head.link))


def fit(
    network: Mlp, c: np.ndarray, log_z: np.ndarray, budget: Budget, rng: torch.Generator,
    advance: Advance = lambda n: None, start: float | None = None,
) -> float:  # fmt: skip
    """Bring network(c) near log Z, for c (n, d) and log Z (n,); `start` is when the time budget began to run.

    Returns the passes made.
    """
    device = device_of(network)
    with torch.no_grad():
        pieces = ((network.features(x.to(device)), z.to(device)) for x, z in _pieces(c, log_z))
        network.affine.load_state_dict(least_squares(pieces, network.affine.a.numel()).state_dict())
        network.scatter(rng)
    return _descend(network, c, log_z, budget, rng, start or time.monotonic(), advance)


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
    """AdamW with a one-cycle rate on the squared error; stops early at the time budget. Returns the passes made."""
    size, count, made = 512, len(c_file), 0
    steps = math.ceil(budget.passes * -(-count // size))
    optimizer = torch.optim.AdamW(normalizer.parameters(), lr=2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps + 1, pct_start=0.15)
    device = device_of(normalizer)
    for c, log_z in _batches(c_file, z_file, size, steps, rng):
        with torch.enable_grad():  # whoever calls may have switched gradients off
            loss = (normalizer(moved(c, device)) - moved(log_z, device)).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        with torch.device(HOST):  # torch keeps the count of steps there
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
    piece, host = min(len(c_file), 131_072), host_of(rng)
    while True:
        for at in torch.randperm(-(-len(c_file) // piece), generator=host, device=HOST).tolist():
            c = torch.from_numpy(c_file[at * piece : (at + 1) * piece])
            log_z = torch.from_numpy(z_file[at * piece : (at + 1) * piece])
            for chosen in torch.split(torch.randperm(len(c), generator=host, device=HOST), size):
                yield c[chosen], log_z[chosen]
                steps -= 1
                if steps <= 0:
                    return

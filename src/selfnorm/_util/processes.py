"""The processes that train one model together, as torchrun starts them: which one this is, and sums over all of them."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from selfnorm._util.devices import HOST, choose, is_host

WAIT = datetime.timedelta(
    hours=12
)  # the others wait while the first validates; torchrun ends those of a dead one at once


@dataclass(frozen=True)
class Processes:
    """Number `rank` of `size` processes; the first one alone writes."""

    rank: int = 0
    size: int = 1
    device: torch.device = HOST

    @property
    def first(self) -> bool:
        return self.rank == 0

    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            dist.barrier()


ALONE = Processes()


@contextmanager
def processes(device: str) -> Iterator[Processes]:
    """This process among those that torchrun started, joined; alone if it did not start it.

    With CUDA each process takes the GPU of its local number, and they talk through NCCL; otherwise through gloo.
    """
    size = int(os.environ.get("WORLD_SIZE", "1")) if "MASTER_ADDR" in os.environ and "RANK" in os.environ else 1
    if size == 1:
        yield Processes(device=choose(device))
        return
    chosen = choose(device)
    if chosen.type == "cuda" and ":" not in device:
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(chosen)
    dist.init_process_group("gloo" if is_host(chosen) else "nccl", timeout=WAIT)
    try:
        yield Processes(dist.get_rank(), size, chosen)
    finally:
        dist.destroy_process_group()


def mean_over_processes(x: Tensor) -> Tensor:
    """The mean of all elements of x in all processes, each of which has as many."""
    total = x.mean()
    dist.all_reduce(total)
    return total / dist.get_world_size()


def gathered(x: Tensor, size: int) -> list[Tensor]:
    """x of every process, in their order; all have the same shape."""
    parts = [torch.empty_like(x) for _ in range(size)]
    dist.all_gather(parts, x.contiguous())
    return parts

"""Where tensors live: the device by name, random generators per device, and what only a CPU may do.

Everything is created on the device of the model or of the tensors it meets; results go to the host where they are written.
A CPU reads its numbers at no cost; every other device computes ahead of the host, and reading a number waits for it.
"""

from __future__ import annotations

import logging
from typing import Any, TypeVar

import torch
from torch import Tensor

from selfnorm._util.errors import UserError

log = logging.getLogger("selfnorm")
HOST = torch.device("cpu")
T = TypeVar("T", bound=torch.nn.Module)


def is_host(device: torch.device) -> bool:
    """Is reading a number from this device free? The one place where the CPU is told from the others."""
    return device.type == "cpu"


def choose(name: str) -> torch.device:
    """The device of a name: cpu, cuda, cuda:1, mps; auto is the GPU that CUDA finds, otherwise the CPU."""
    if name == "auto":
        return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else HOST
    if name not in available() and not (name == "cuda" and torch.cuda.is_available()):
        raise UserError(
            f"device = {name}: torch {torch.__version__} finds {', '.join(available())} here. Choose one of these, or auto."
        )
    return torch.device(name)


def available() -> list[str]:
    """The devices that torch finds here."""
    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]


def device_of(module: torch.nn.Module) -> torch.device:
    """The device of a module's parameters."""
    return next(iter(module.parameters())).device


def wide(device: torch.device) -> torch.dtype:
    """What sums are computed in: float64, or float32 on Apple's GPUs, which have no other."""
    return torch.float32 if device.type == "mps" else torch.float64


def moved(x: Tensor, device: torch.device) -> Tensor:
    """A host tensor on the device; copied from pinned memory while the host goes on, where that is possible."""
    if device.type == "cuda":
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)


def to_host(x: Tensor) -> Any:
    """The numbers of a tensor as an array."""
    return x.detach().cpu().numpy()


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished: timers must."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


class Rng(torch.Generator):
    """The random generator of a device; `host` is the one for decisions that the host takes, itself on a CPU."""

    host: torch.Generator

    def __init__(self, device: torch.device = HOST) -> None:
        super().__init__()
        self.host = self if is_host(device) else torch.Generator()

    def __new__(cls, device: torch.device = HOST) -> Rng:
        return super().__new__(cls, device=device)  # type: ignore[call-arg]


def make_rng(seed: int, device: torch.device = HOST) -> Rng:
    rng = Rng(device)
    rng.host.manual_seed(seed)
    rng.manual_seed(seed)
    return rng


def host_of(rng: torch.Generator) -> torch.Generator:
    """The generator for what the host decides: a plain one, which is a CPU's, is its own."""
    return rng.host if isinstance(rng, Rng) else rng


def coin(rng: torch.Generator) -> float:
    """A number in [0, 1) for a decision of the host: no device is waited for."""
    return float(torch.rand((), generator=host_of(rng), device=HOST))

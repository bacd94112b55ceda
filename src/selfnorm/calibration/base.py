"""What a calibration kind is, and what it is fitted with.

A kind is a class with

    fit(task)              the normalizer fitted to the task's contexts, and what of the budget was used
    load(tensors, head)    the same normalizer again, from the tensors of its state_dict
    work(budget, count)    contexts to go through, for the progress bar; 0 if that cannot be told
    cost(budget, V, d)     multiply-adds per context when it is used; an int8 one counts as a quarter
    options                the settings of Budget that it uses: they are stored and enter the signature
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from selfnorm._util.devices import make_rng
from selfnorm._util.errors import UserError, nearest
from selfnorm.nn.normalizers import Normalizer
from selfnorm.nn.output import Output

Advance = Callable[[float], None]
Contexts = Callable[[int], Iterator[Tensor]]  # at most so many contexts, in pieces (n, d)


@dataclass(frozen=True)
class Budget:
    """How much a calibration may cost to fit and to use. Each kind uses some of these."""

    contexts: int = 1_000_000
    passes: float = 4
    minutes: float = 30.0
    hidden: tuple[int, ...] = (128, 128)
    frequent: int = 256  # rows of the output layer whose log-sum is a feature
    rank: int = 192  # directions of a preview
    top: int = 0  # words whose score is computed exactly; 0 is the kind's own number
    preview: str = "int8"  # float32, bf16 or int8

    def __post_init__(self) -> None:
        if self.rank < 1 or self.top < 0 or self.preview not in ("float32", "bf16", "int8"):
            raise UserError("calibration: rank must be above 0, top at least 0, preview float32, bf16 or int8.")
        for name, value in (("contexts", self.contexts), ("passes", self.passes), ("minutes", self.minutes)):
            if not 0 < value < math.inf:
                raise UserError(f"calibration: {name} = {value}; a number above 0 was expected.")
        if self.frequent < 0 or min(self.hidden, default=0) < 1:
            raise UserError(
                f"calibration: frequent = {self.frequent} must be at least 0, every hidden size of {self.hidden} above 0."
            )


def make_budget(settings: dict[str, Any]) -> Budget:
    """A Budget from settings by name; an unknown name is refused."""
    known = [f.name for f in fields(Budget)]
    for name in settings:
        if name not in known:
            raise UserError(f"calibration: unknown setting {name}.{nearest(name, known)} Known: {', '.join(known)}.")
    given = dict(settings)
    if not isinstance(given.get("hidden", ()), tuple):
        given["hidden"] = tuple(given["hidden"]) if isinstance(given["hidden"], list) else (given["hidden"],)
    for name, value in given.items():
        _check_type(name, value)
    return Budget(**given)


def _check_type(name: str, value: Any) -> None:
    kind: Any
    kind, wanted = (str, "a name") if name == "preview" else (Integral, "a whole number")
    if name in ("passes", "minutes"):
        kind, wanted = Real, "a number"
    for one in value if isinstance(value, tuple) else (value,):
        if not isinstance(one, kind) or isinstance(one, bool):
            raise UserError(f"calibration: {name} = {value!r}; {wanted} was expected.")


@dataclass(frozen=True)
class Task:
    """A head, contexts to fit on, and held-out contexts. `counts` (V,) chooses rows, if given."""

    head: Output
    contexts: Contexts
    held_out: Contexts
    budget: Budget = field(default_factory=Budget)
    counts: Tensor | None = None
    rng: torch.Generator = field(default_factory=lambda: make_rng(1))
    advance: Advance = lambda n: None
    start: float = field(default_factory=time.monotonic)

    def pairs(self, head: Output | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """(c (n, d), exact log Z (n,)) of the contexts to fit on."""
        with torch.no_grad():
            for c in self.contexts(self.budget.contexts):
                yield c, (head or self.head).log_z(c)


class Calibration(Protocol):
    options: tuple[str, ...]

    def fit(self, task: Task) -> tuple[Normalizer, Budget]: ...

    def load(self, tensors: dict[str, Tensor], head: Output) -> Normalizer: ...

    def work(self, budget: Budget, count: int) -> float: ...

    def cost(self, budget: Budget, V: int, d: int) -> float: ...


def scratch_file(*shape: int) -> np.ndarray:
    """Numbers on disk under no name: the space is free again when the process ends, however it ends."""
    with tempfile.TemporaryFile(prefix="selfnorm-") as handle:
        if hasattr(os, "posix_fallocate"):  # a full disk is an error now rather than a dead process later
            os.posix_fallocate(handle.fileno(), 0, 4 * math.prod(shape))
        return np.memmap(handle, np.float32, "w+", shape=shape)

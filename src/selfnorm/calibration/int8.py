"""int8: all scores from rows of eight bits, the largest exactly, log-sum-exp over both. Nothing is learnt, no covariance needed.

Column j of the rows is multiplied by s_j and c_j divided by it, so that neither side wastes its eight bits on a few large
channels; each row and each context has its own scale (nn/int8.py).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from selfnorm._util.devices import HOST
from selfnorm.calibration.base import Budget, Task
from selfnorm.calibration.top_exact import TopExact
from selfnorm.nn.int8 import Int8Rows, balance
from selfnorm.nn.output import Output

CONTEXTS = 20_000  # enough for the channels' largest values
TOP = 64


class Int8(TopExact):
    """The preview is c·Wᵀ in eight bits: V·d int8 multiply-adds."""

    factor: Tensor
    rows: Tensor
    row_scale: Tensor

    def __init__(self, head: Output, tensors: dict[str, Tensor]) -> None:
        super().__init__(head, tensors)
        if self.rows.shape != head.weight.shape or len(self.row_scale) != head.V:
            raise ValueError("rows of another head")
        self._rows = Int8Rows(self.rows, self.row_scale)

    def preview_scores(self, c: Tensor) -> Tensor:
        return self._rows.scores(c / self.factor, self._head[0].bias.view(-1).float())

    def multiply_adds(self) -> float:
        return self.rows.numel() / 4 + int(self.top) * len(self.factor)


class Quantization:
    """Fit an Int8: the channels' largest values over some contexts."""

    options = ("contexts", "top")

    def fit(self, task: Task) -> tuple[Int8, Budget]:
        head, count, largest = (
            task.head.without_normalizer(),
            0,
            task.head.weight.new_zeros(task.head.d, dtype=torch.float32),
        )
        for c in task.contexts(min(task.budget.contexts, CONTEXTS)):
            largest, count = torch.maximum(largest, c.float().abs().amax(0)), count + len(c)
            task.advance(len(c))
        factor = balance(head.weight, largest)
        rows, row_scale = Int8Rows.quantized(head.weight, factor)
        top = min(task.budget.top or TOP, head.V)
        tensors = {
            "factor": factor,
            "rows": rows,
            "row_scale": row_scale,
            "top": torch.tensor(top, device=HOST),
        }
        return Int8(head, tensors), replace(task.budget, contexts=count, top=top)

    def load(self, tensors: dict[str, Tensor], head: Output) -> Int8:
        return Int8(head, tensors)

    def work(self, budget: Budget, count: int) -> float:
        return min(count, CONTEXTS)

    def cost(self, budget: Budget, V: int, d: int) -> float:
        return V * d / 4 + min(budget.top or TOP, V) * d

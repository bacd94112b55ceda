"""shift: subtract the mean of log Z on held-out contexts (section 5.2 of the paper)."""

from __future__ import annotations

import torch
from torch import Tensor

from selfnorm._util.devices import wide
from selfnorm.calibration.base import Budget, Task
from selfnorm.nn.normalizers import Affine
from selfnorm.nn.output import Output


class Shift:
    """g = mu_z. It folds into the bias and costs nothing; sigma_z stays as it is."""

    options: tuple[str, ...] = ()

    def fit(self, task: Task) -> tuple[Affine, Budget]:
        total, count = 0.0, 0
        with torch.no_grad():
            for c in task.held_out(1 << 62):
                total, count = total + float(task.head.log_z(c).to(wide(c.device)).sum()), count + len(c)
        zero = task.head.weight.new_zeros(task.head.d, dtype=torch.float32)
        return Affine.of(zero, zero.new_tensor(total / count)), task.budget

    def load(self, tensors: dict[str, Tensor], head: Output) -> Affine:
        return Affine.of(tensors["a"], tensors["b"])

    def work(self, budget: Budget, count: int) -> float:
        return 0

    def cost(self, budget: Budget, V: int, d: int) -> float:
        return 0.0

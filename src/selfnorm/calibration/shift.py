"""shift: subtract the mean of log Z on held-out contexts (section 5.2 of the paper)."""

from __future__ import annotations

import torch
from torch import Tensor

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
                total, count = total + float(task.head.log_z(c).double().sum()), count + len(c)
        normalizer = Affine(task.head.d)
        with torch.no_grad():
            normalizer.b.fill_(total / count)
        return normalizer, task.budget

    def load(self, tensors: dict[str, Tensor], head: Output) -> Affine:
        normalizer = Affine(head.d)
        normalizer.load_state_dict(tensors)
        return normalizer

    def work(self, budget: Budget, count: int) -> float:
        return 0

    def cost(self, budget: Budget, V: int, d: int) -> float:
        return 0.0

"""affine: least squares of log Z on c, from sums of products in float64, so contexts are never held."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from selfnorm.calibration.base import Advance, Budget, Task
from selfnorm.calibration.shift import Shift
from selfnorm.nn.normalizers import Affine


class LeastSquares(Shift):
    """g = a·c + b. It folds into the output layer's rows and costs nothing: m - g = (w - a)·c + (b_w - b)."""

    options = ("contexts",)

    def fit(self, task: Task) -> tuple[Affine, Budget]:
        count = 0

        def counted(n: float) -> None:
            nonlocal count
            count += int(n)
            task.advance(n)

        normalizer = least_squares(task.pairs(), task.head.d, counted)
        return normalizer, replace(task.budget, contexts=count)

    def work(self, budget: Budget, count: int) -> float:
        return count


def least_squares(pairs: Iterable[tuple[Tensor, Tensor]], d: int, advance: Advance = lambda n: None) -> Affine:
    """The affine function of x nearest to z, for pairs of x (n, d) and z (n,)."""
    gram, moment = torch.zeros(d + 1, d + 1, dtype=torch.float64), torch.zeros(d + 1, dtype=torch.float64)
    for c, log_z in pairs:
        x = torch.cat([c.double(), torch.ones(len(c), 1, dtype=torch.float64)], dim=1)
        gram += x.t() @ x
        moment += x.t() @ log_z.double()
        advance(len(c))
    ridge = 1e-8 * gram.diagonal().mean() * torch.eye(len(gram), dtype=torch.float64)
    solution = torch.linalg.solve(gram + ridge, moment)
    normalizer = Affine(len(gram) - 1)
    with torch.no_grad():
        normalizer.a.copy_(solution[:-1])
        normalizer.b.copy_(solution[-1])
    return normalizer

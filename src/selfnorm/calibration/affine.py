"""affine: least squares of log Z on c, from sums of products in float64, so contexts are never held."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from selfnorm._util.devices import HOST, wide
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
    gram = torch.zeros(d + 1, d + 1, dtype=torch.float64, device=HOST)  # sums are kept on the host
    moment, device = gram.new_zeros(d + 1), HOST
    for c, log_z in pairs:
        device, kind = c.device, wide(c.device)
        x = torch.cat([c.to(kind), c.new_ones(len(c), 1, dtype=kind)], dim=1)
        gram += (x.t() @ x).cpu()
        moment += (x.t() @ log_z.to(kind)).cpu()
        advance(len(c))
    ridge = 1e-8 * gram.diagonal().mean() * torch.eye(len(gram), dtype=torch.float64, device=HOST)
    solution = torch.linalg.solve(gram + ridge, moment).float().to(device)
    return Affine.of(solution[:-1], solution[-1])

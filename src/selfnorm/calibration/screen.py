"""screen: all scores approximately from a few directions, the largest exactly, log-sum-exp over both. Nothing is learnt.

    log Z ≈ logsumexp over all words of  m(w,c) exactly               for the `top` words of the preview
                                         A_w·y + b_w + u_w            for the others,  y = (c - mean)·P

The preview is the best one of rank r for the contexts' distribution: with S their covariance, A·P is the truncated SVD of W·S^½.
u_w is half the variance of what the preview drops of word w: the mean of e^x is e^(variance/2) for a normal x. Where a model is
sure, its top words are the sum, and they are exact; where it is not, errors of many words cancel.

It needs a covariance from some ten thousand contexts of every kind of text it will be used on: fitted on one domain alone, it
fails on others.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from selfnorm.calibration.base import Budget, Task
from selfnorm.calibration.top_exact import TopExact
from selfnorm.nn.int8 import balance, int8_scores, quantize_rows
from selfnorm.nn.output import Output

CONTEXTS = 60_000  # enough for a covariance
TOP = 2048
COST = {"float32": 1.0, "bf16": 0.5, "int8": 0.25}  # of a multiply-add


class Screen(TopExact):
    """The preview has rank r: r·d multiply-adds to project c, and V·r in float32, bf16 or int8."""

    mean: Tensor
    project: Tensor
    preview: Tensor
    offset: Tensor
    row_scale: Tensor

    def __init__(self, head: Output, tensors: dict[str, Tensor]) -> None:
        super().__init__(head, tensors)
        if len(self.preview) != head.V or len(self.mean) != head.d:
            raise ValueError("a preview of another head")

    @property
    def kind(self) -> str:
        return {torch.int8: "int8", torch.bfloat16: "bf16"}.get(self.preview.dtype, "float32")

    def preview_scores(self, c: Tensor) -> Tensor:
        y = (c.float() - self.mean) @ self.project
        if self.kind == "int8":
            return int8_scores(y, self.preview, self.row_scale).add_(self.offset)
        return (y.to(self.preview.dtype) @ self.preview.t()).float().add_(self.offset)

    def multiply_adds(self) -> float:
        V, r = self.preview.shape
        return len(self.mean) * r + COST[self.kind] * V * r + int(self.top) * len(self.mean)


class Screening:
    """Fit a Screen: mean and covariance of contexts, two eigendecompositions, one product with the rows."""

    options = ("contexts", "rank", "top", "preview")

    def fit(self, task: Task) -> tuple[Screen, Budget]:
        head, budget = task.head.without_normalizer(), task.budget
        mean, covariance, sample, count = moments(task)
        rank, top = min(budget.rank, head.d), min(budget.top or TOP, head.V)
        tensors = screen_tensors(head, mean, covariance, rank, budget.preview, sample)
        tensors["top"] = torch.tensor(top)
        return Screen(head, tensors), replace(budget, contexts=count, rank=rank, top=top)

    def load(self, tensors: dict[str, Tensor], head: Output) -> Screen:
        return Screen(head, tensors)

    def work(self, budget: Budget, count: int) -> float:
        return min(count, CONTEXTS)


def moments(task: Task) -> tuple[Tensor, Tensor, Tensor, int]:
    """Mean (d,) and covariance (d, d) in float64, a sample of the contexts (n, d), and how many there were."""
    d = task.head.d
    total, squares, count = torch.zeros(d, dtype=torch.float64), torch.zeros(d, d, dtype=torch.float64), 0
    sample = []
    for c in task.contexts(min(task.budget.contexts, CONTEXTS)):
        x = c.double()
        total, squares, count = total + x.sum(0), squares + x.t() @ x, count + len(x)
        sample.append(c[:: max(1, len(c) // 64)])
        task.advance(len(c))
    mean = total / count
    return mean, squares / count - torch.outer(mean, mean), torch.cat(sample), count


def screen_tensors(
    head: Output, mean: Tensor, covariance: Tensor, rank: int, kind: str, sample: Tensor
) -> dict[str, Tensor]:
    """The preview of a head for contexts of this mean and covariance."""
    values, vectors = torch.linalg.eigh(covariance)
    root = values.clamp(min=1e-10 * float(values.max())).sqrt()
    half = vectors * root  # S^½ up to a rotation: half·halfᵀ = S
    gram = torch.zeros_like(covariance)
    for weight in torch.split(head.weight, 4096):
        scaled = weight.double() @ half
        gram += scaled.t() @ scaled
    chosen = torch.linalg.eigh(gram).eigenvectors[:, -rank:]
    project = (vectors / root) @ chosen  # (c - mean)·project has unit variances
    rows, offset = [], []
    for weight, bias in zip(torch.split(head.weight, 4096), torch.split(head.bias, 4096), strict=True):
        scaled = weight.double() @ half
        kept = scaled @ chosen
        dropped = (scaled.square().sum(1) - kept.square().sum(1)).clamp(min=0)
        rows.append(kept.float())
        offset.append((weight.double() @ mean + bias.double().view(-1) + dropped / 2).float())
    preview, scale = torch.cat(rows), torch.ones(0)
    if kind == "int8":
        factor = balance(preview, ((sample.double() - mean) @ project).abs().amax(0).float())
        project = project / factor.double()
        preview, scale = quantize_rows(preview * factor)
    elif kind == "bf16":
        preview = preview.bfloat16()
    numbers = {"mean": mean.float(), "project": project.float(), "offset": torch.cat(offset)}
    return {**numbers, "preview": preview, "row_scale": scale}

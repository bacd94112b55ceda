"""screen: all scores approximately from a few directions, the largest exactly, log-sum-exp over both. Nothing is learnt.

    log Z ≈ logsumexp over all words of  m(w,c) exactly                       for the `top` words of the preview
                                         A_w·y + b_w + ½ s(c) v_w             for the others,  y = (c - mean)·P

The preview is the best one of rank r for the contexts' distribution: with S their covariance, A·P is the truncated SVD of W·S^½.
v_w is the variance of what the preview drops of word w: the mean of e^x is e^(variance/2) for a normal x. s(c) says how large
the dropped part of this context is, about 1 on average: a context unlike those fitted on has a larger one. It is the sum of the
squares of a few random projections of that part; over all draws their mean is that over all of its directions. Where a model is
sure, its top words are the sum, and they are exact; where it is not, errors of many words cancel.

It needs a covariance from some ten thousand contexts, better of more than one kind of text.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from selfnorm._util.devices import HOST, make_rng, wide
from selfnorm._util.errors import UserError
from selfnorm.calibration.base import Budget, Task
from selfnorm.calibration.top_exact import TopExact
from selfnorm.nn.int8 import BLOCK, Int8Rows, balance
from selfnorm.nn.output import Output, link_of

CONTEXTS = 60_000  # enough for a covariance
TOP = 2048
COST = {"float32": 1.0, "bf16": 0.5, "int8": 0.25}  # of a multiply-add


def sketched(d: int, rank: int) -> int:
    """How many projections of the dropped part s(c) is computed from."""
    return min(d - rank, max(16, rank // 2))


class Screen(TopExact):
    """The preview has rank r: d·(r + q) multiply-adds to project c, q = max(16, r/2), and V·(r + 1) in float32, bf16 or int8."""

    mean: Tensor  # (d,)
    project: Tensor  # (d, r + q): the first r columns give y, the others q numbers whose squares sum to s(c)
    preview: Tensor  # (V, r + 1): A and ½ v
    factor: Tensor  # (r + 1,) by which y and s are divided
    row_scale: Tensor
    offset: Tensor  # (V,)

    def __init__(self, head: Output, tensors: dict[str, Tensor]) -> None:
        super().__init__(head, tensors)
        scales = head.V if self.kind == "int8" else 0
        if (len(self.preview), len(self.offset), len(self.mean), len(self.row_scale)) != (
            head.V,
            head.V,
            head.d,
            scales,
        ):
            raise ValueError("a preview of another head")
        self._rows = Int8Rows(self.preview, self.row_scale) if self.kind == "int8" else None

    @property
    def kind(self) -> str:
        return {torch.int8: "int8", torch.bfloat16: "bf16"}.get(self.preview.dtype, "float32")

    def preview_scores(self, c: Tensor) -> Tensor:
        y = directions(c, self.mean, self.project, self.preview.shape[1] - 1) / self.factor
        if self._rows is not None:
            return self._rows.scores(y, self.offset)
        if self.kind == "float32":
            return torch.addmm(self.offset, y, self.preview.t()).float()
        return (y.to(self.preview.dtype) @ self.preview.t()).float().add_(self.offset)

    def multiply_adds(self) -> float:
        return self.project.numel() + COST[self.kind] * self.preview.numel() + int(self.top) * len(self.mean)


def directions(c: Tensor, mean: Tensor, project: Tensor, rank: int) -> Tensor:
    """(y, s(c)) of contexts: (n, rank + 1)."""
    every = (c.float() - mean) @ project
    return torch.cat([every[:, :rank], every[:, rank:].square().sum(1, keepdim=True)], dim=1)


class Screening:
    """Fit a Screen: mean and covariance of contexts, two eigendecompositions, one product with the rows."""

    options = ("contexts", "rank", "top", "preview")

    def fit(self, task: Task) -> tuple[Screen, Budget]:
        head, budget = task.head.without_normalizer(), task.budget
        if head.link == "log_sigmoid":
            raise UserError("screen does not suit scores behind a log-sigmoid (criterion snis): use int8 or mlp.")
        mean, covariance, sample, count = moments(task)
        rank, top = min(budget.rank, head.d), min(budget.top or TOP, head.V)
        tensors = screen_tensors(head, mean, covariance, rank, budget.preview, sample)
        tensors["top"] = torch.tensor(top, device=HOST)
        return Screen(head, tensors), replace(budget, contexts=count, rank=rank, top=top)

    def load(self, tensors: dict[str, Tensor], head: Output) -> Screen:
        return Screen(head, tensors)

    def work(self, budget: Budget, count: int) -> float:
        return min(count, CONTEXTS)

    def cost(self, budget: Budget, V: int, d: int) -> float:
        rank, top = min(budget.rank, d), min(budget.top or TOP, V)
        return d * (rank + sketched(d, rank)) + COST[budget.preview] * V * (rank + 1) + top * d


def slope(link: str, step: float = 1e-3) -> float:
    """The slope of a link at 0: what a small score is multiplied by."""
    ends = link_of(link)(torch.tensor([-step, step], dtype=torch.float64, device=HOST))
    return float(ends[1] - ends[0]) / (2 * step)


def moments(task: Task) -> tuple[Tensor, Tensor, Tensor, int]:
    """Mean (d,) and covariance (d, d) in float64, a sample of the contexts (n, d), and how many there were."""
    d = task.head.d
    squares = torch.zeros(d, d, dtype=torch.float64, device=HOST)
    total, count = squares.new_zeros(d), 0
    sample = []
    for c in task.contexts(min(task.budget.contexts, CONTEXTS)):
        x = c.to(wide(c.device))
        total, squares, count = total + x.sum(0).cpu(), squares + (x.t() @ x).cpu(), count + len(x)
        sample.append(c[:: max(1, len(c) // 64)].cpu())
        task.advance(len(c))
    mean = total / count
    return mean, squares / count - torch.outer(mean, mean), torch.cat(sample), count


def mixing(d: int, rank: int) -> Tensor:
    """(d - rank, q) with orthogonal columns, random, always the same: x·mixing has the squared length of x on average."""
    count, size = d - rank, sketched(d, rank)
    if size == count:
        return torch.eye(count, dtype=torch.float64, device=HOST)
    columns = torch.randn(count, size, generator=make_rng(1), dtype=torch.float64, device=HOST)
    basis: Tensor = torch.linalg.qr(columns).Q
    return basis * math.sqrt(count / size)


def screen_tensors(
    head: Output, mean: Tensor, covariance: Tensor, rank: int, kind: str, sample: Tensor
) -> dict[str, Tensor]:
    """The preview of a head for contexts of this mean and covariance. Made once, on the host, in float64."""
    values, vectors = torch.linalg.eigh(covariance)
    root = values.clamp(min=max(1e-10 * float(values.max()), 1e-30)).sqrt()
    half = vectors * root  # S^½ up to a rotation: half·halfᵀ = S
    gram = torch.zeros_like(covariance)
    for weight in torch.split(head.weight, BLOCK):
        scaled = weight.cpu().double() @ half
        gram += scaled.t() @ scaled
    importance, basis = torch.linalg.eigh(gram)
    importance, basis = importance.flip(0).clamp(min=0), basis.flip(1)  # the most important direction first
    every = (vectors / root) @ basis  # (c - mean)·every has unit variances
    dropped = importance[rank:] / importance[rank:].sum().clamp(min=1e-30)
    project = torch.cat([every[:, :rank], every[:, rank:] * dropped.sqrt() @ mixing(head.d, rank)], dim=1)
    steepness = slope(head.link)  # the link multiplies the half variance by its slope once more
    preview = torch.empty(head.V, rank + 1, device=HOST)
    offset, bias = torch.empty(head.V, device=HOST), head.bias.cpu().double().view(-1)
    for at in range(0, head.V, BLOCK):
        some = slice(at, at + BLOCK)
        weight = head.weight[some].cpu().double()
        scaled = weight @ half
        kept = scaled @ basis[:, :rank]
        variance = (scaled.square().sum(1) - kept.square().sum(1)).clamp(min=0)
        preview[some, :rank], preview[some, rank] = kept, steepness * variance / 2
        offset[some] = weight @ mean + bias[some]
    scale, factor = torch.ones(0, device=HOST), torch.ones(rank + 1, device=HOST)
    if kind == "int8":
        factor = balance(preview, directions(sample, mean.float(), project.float(), rank).abs().amax(0))
        preview, scale = Int8Rows.quantized(preview, factor)
    elif kind == "bf16":
        preview = preview.bfloat16()
    numbers = {"mean": mean.float(), "project": project.float(), "offset": offset}
    return {**numbers, "preview": preview, "row_scale": scale, "factor": factor}

"""For trainers of large models: a z-loss that is right, and a monitor that says whether log Z is under control.

    loss = z_loss(logits, labels, alpha=1e-4)
    loss.total.backward()                        # cross-entropy and penalty; report loss.fit, not their sum
    monitor.add(loss.log_z)

The usual mistakes are not possible here: the penalty is the mean of squares, not the square of the mean; masked tokens do
not count; log Z is computed in float32 even for bfloat16 logits; the cross-entropy is reported without it; labels of another
shape are refused. Micro-batches add up to their batch if each is given the number of tokens in the batch (docs/zloss.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

REDUCTIONS = ("mean", "sum", "none")


@dataclass(frozen=True)
class ZLoss:
    """total: what is minimized. fit: cross-entropy. penalty: alpha · (log Z)². Means over the labels that count, unless asked otherwise.

    every (...,): log Z of all tokens, detached; counted (...,): which of them count. log_z (n,): of those that count.
    """

    total: Tensor
    fit: Tensor
    penalty: Tensor
    every: Tensor
    counted: Tensor

    @property
    def log_z(self) -> Tensor:
        return self.every[self.counted]


def z_loss(
    logits: Tensor,
    labels: Tensor,
    alpha: float = 1e-4,
    ignore_index: int = -100,
    tokens: float | Tensor | None = None,
    reduction: str = "mean",
) -> ZLoss:
    """Cross-entropy and alpha · (log Z)² over the labels that are not `ignore_index`.

    logits (..., V), labels (...). With alpha = 0 the penalty is exactly 0. DEV-LM of the paper has alpha = 0.1 to 10;
    PaLM used 1e-4, OLMo 1e-5. `tokens` is what the sums are divided by, if not the number of labels that count: give the
    number in the whole batch where this is a part of one, and the parts add up to it. `reduction` is mean, sum or none: none
    gives one value per label, 0 where a label does not count.

        fit = mean (log Z - m(w)),  penalty = alpha · mean (log Z)²

    >>> loss = z_loss(torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.long), alpha=1.0)
    >>> round(float(loss.fit), 4), round(float(loss.penalty), 4)     # log 4 and (log 4)²
    (1.3863, 1.9218)
    """
    real, wanted = checked(logits, labels, logits.shape[-1], alpha, ignore_index, tokens, reduction)
    precise = logits if logits.dtype == torch.float64 else logits.float()
    precise = torch.where(real.unsqueeze(-1), precise, 0.0)  # what is masked may be anything, even no number
    log_z = precise.logsumexp(-1)
    nll = torch.where(real, log_z - precise.gather(-1, wanted.unsqueeze(-1)).squeeze(-1), 0.0)
    square = torch.where(real, log_z**2, 0.0)
    fit, penalty = (reduced(x, real, tokens, reduction) for x in (nll, alpha * square))
    return ZLoss(fit + penalty, fit, penalty, log_z.detach(), real)


def reduced(values: Tensor, real: Tensor, tokens: float | Tensor | None, reduction: str) -> Tensor:
    """Values that are 0 where a label does not count, as their mean or sum, or as they are."""
    if reduction == "none":
        return values
    return values.sum() / divisor(real, tokens, reduction)


def divisor(real: Tensor, tokens: float | Tensor | None, reduction: str) -> float | Tensor:
    return 1.0 if reduction == "sum" else real.sum() if tokens is None else tokens


def checked(
    scored: Tensor, labels: Tensor, V: int, alpha: float, ignore_index: int, tokens: float | Tensor | None, reduction: str
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Which labels count, and the labels as long integers, 0 where they do not. What gives a loss without meaning is refused.

    This waits for the device once. Under torch.compile the values are checked on the device instead.
    """
    if labels.shape != scored.shape[:-1]:
        raise ValueError(
            f"labels are {tuple(labels.shape)}, but logits {tuple(scored.shape)} need labels {tuple(scored.shape[:-1])}"
        )
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(f"labels are {labels.dtype}; numbers of words, integers, were expected")
    if reduction not in REDUCTIONS or (reduction != "mean" and tokens is not None):
        raise ValueError(f"reduction = {reduction!r}: mean, sum or none was expected, and tokens only with mean")
    if not alpha >= 0:
        raise ValueError(f"alpha = {alpha}, tokens = {tokens}: alpha must be at least 0 and tokens above 0")
    labels = labels.long()  # a byte would take -100 for 156
    real = labels != ignore_index
    _check_values(real & ((labels < 0) | (labels >= V)), real, V, alpha, ignore_index, tokens, reduction)
    return real, torch.where(real, labels, 0)


def _check_values(
    bad: Tensor, real: Tensor, V: int, alpha: float, ignore_index: int, tokens: float | Tensor | None, reduction: str
) -> None:  # fmt: skip
    by = torch.ones((), device=real.device) if tokens is None else torch.as_tensor(tokens, device=real.device)
    if torch.compiler.is_compiling():
        torch._assert_async(~bad.any(), "a label is out of range")
        return
    wrong, count, above = (int(x) for x in torch.stack([bad.any(), real.sum(), (by > 0).all()]).tolist())
    if wrong:
        raise ValueError(f"a label is not from 0 to {V - 1}; those to leave out must be ignore_index ({ignore_index})")
    if count and not above:
        raise ValueError(f"alpha = {alpha}, tokens = {tokens}: alpha must be at least 0 and tokens above 0")
    if not count and reduction == "mean" and (tokens is None or not above):
        raise ValueError(
            f"every label is {ignore_index}: there is nothing to learn from in this batch. If it is a part of one, give `tokens`, "
            "the labels that count in all of it"
        )


class LogZMonitor:
    """mu_z and sigma_z over everything added since the last reset, in float64.

    >>> monitor = LogZMonitor(V=50_000)
    >>> monitor.add(torch.full((8,), 10.82))                         # log V: a model before training
    >>> monitor.sentence().split(". ")[-1]
    'As expected before training: log Z is near log V = 10.82.'
    """

    def __init__(self, V: int | None = None) -> None:
        """With V, thresholds are relative to log V, where log Z of an untrained model is: without it, to 0."""
        self.start = math.log(V) if V else 0.0
        self.reset()

    def reset(self) -> None:
        """Forget everything added: call it after `sentence` if the next one is to cover the steps since."""
        self.count, self.sum, self.squares, self.largest = 0, 0.0, 0.0, 0.0

    def add(self, log_z: Tensor) -> None:
        z = log_z.detach().double()
        if z.numel():
            self._take(z.numel(), float(z.sum()), float((z * z).sum()), float(z.abs().max()))

    def merge(self, other: LogZMonitor) -> None:
        """Take in what another process has seen."""
        self._take(other.count, other.sum, other.squares, other.largest)

    def _take(self, count: int, total: float, squares: float, largest: float) -> None:
        self.count, self.sum, self.squares = self.count + count, self.sum + total, self.squares + squares
        self.largest = largest if math.isnan(largest) else max(self.largest, largest)

    @property
    def mu_z(self) -> float:
        return self.sum / self.count if self.count else math.nan

    @property
    def sigma_z(self) -> float:
        variance = self.squares / self.count - self.mu_z**2 if self.count else math.nan
        return math.sqrt(max(0.0, variance)) if math.isfinite(variance) else math.nan

    def sentence(self) -> str:
        """Is log Z under control? In bfloat16 a logit of size x has steps of about x/128, so drift costs precision."""
        if not self.count:
            return "log Z: no tokens yet."
        state = f"log Z: mean {self.mu_z:+.3f}, spread {self.sigma_z:.3f}, largest {self.largest:.2f} over {self.count:,} tokens"
        if not math.isfinite(self.squares):
            return f"{state}. Out of control: it is not a finite number any more. Go back to the last good checkpoint."
        if self.largest > self.start + 60:
            return f"{state}. Out of control: raise alpha tenfold, or lower the learning rate."
        if self.start and abs(self.mu_z - self.start) < 1 and self.sigma_z < 1:
            return f"{state}. As expected before training: log Z is near log V = {self.start:.2f}."
        if abs(self.mu_z) > self.start + 10 or self.sigma_z > 10:
            return f"{state}. Drifting: a z-loss with alpha = 1e-4 usually holds it; if there is one, raise its alpha tenfold."
        return f"{state}. Under control."


__all__ = ["LogZMonitor", "ZLoss", "z_loss"]

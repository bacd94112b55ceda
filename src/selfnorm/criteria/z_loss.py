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


@dataclass(frozen=True)
class ZLoss:
    """fit: mean cross-entropy. penalty: alpha · mean (log Z)². log_z (n,): of the tokens that count, detached."""

    fit: Tensor
    penalty: Tensor
    log_z: Tensor

    @property
    def total(self) -> Tensor:
        return self.fit + self.penalty


def z_loss(
    logits: Tensor, labels: Tensor, alpha: float = 1e-4, ignore_index: int = -100, tokens: float | None = None
) -> ZLoss:
    """Cross-entropy and alpha · (log Z)² over the labels that are not `ignore_index`.

    logits (..., V), labels (...). With alpha = 0 the penalty is exactly 0. DEV-LM of the paper has alpha = 0.1 to 10;
    PaLM used 1e-4, OLMo 1e-5. `tokens` is what the sums are divided by, if not the number of labels that count: give the
    number in the whole batch where this is a part of one, and the parts add up to it.

        fit = mean (log Z - m(w)),  penalty = alpha · mean (log Z)²

    >>> loss = z_loss(torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.long), alpha=1.0)
    >>> round(float(loss.fit), 4), round(float(loss.penalty), 4)     # log 4 and (log 4)²
    (1.3863, 1.9218)
    """
    precise = logits if logits.dtype == torch.float64 else logits.float()
    every = _checked(logits, labels, ignore_index).reshape(-1)
    real = every != ignore_index
    flat, wanted = precise.reshape(-1, logits.shape[-1])[real], every[real]
    if not alpha >= 0 or (tokens is not None and len(wanted) and not tokens > 0):
        raise ValueError(f"alpha = {alpha}, tokens = {tokens}: alpha must be at least 0 and tokens above 0")
    if not len(wanted) and not tokens:
        raise ValueError(
            f"every label is {ignore_index}: there is nothing to learn from in this batch. If it is a part of one, give `tokens`, "
            "the labels that count in all of it"
        )
    count = len(wanted) if tokens is None else tokens
    log_z = flat.logsumexp(-1)
    fit = (log_z - flat.gather(1, wanted.unsqueeze(1)).squeeze(1)).sum() / count
    return ZLoss(fit, alpha * (log_z**2).sum() / count, log_z.detach())


def _checked(logits: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
    """The labels as long integers; a kind, a shape or a label that does not fit the logits is refused."""
    if labels.shape != logits.shape[:-1]:
        raise ValueError(
            f"labels are {tuple(labels.shape)}, but logits {tuple(logits.shape)} need labels {tuple(logits.shape[:-1])}"
        )
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(f"labels are {labels.dtype}; numbers of words, integers, were expected")
    labels = labels.long()  # a byte would take -100 for 156
    if bool(((labels != ignore_index) & ((labels < 0) | (labels >= logits.shape[-1]))).any()):
        raise ValueError(
            f"a label is not from 0 to {logits.shape[-1] - 1}; those to leave out must be ignore_index ({ignore_index})"
        )
    return labels


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

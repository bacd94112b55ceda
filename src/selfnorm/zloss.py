"""For trainers of large models: a z-loss that is right, and a monitor that says whether log Z is under control.

    loss = z_loss(logits, labels, alpha=1e-4)
    loss.total.backward()                        # cross-entropy and penalty; report loss.fit, not their sum
    monitor.add(loss.log_z)

The usual mistakes are not possible here: the penalty is the mean of squares, not the square of the mean; masked
tokens do not count; log Z is computed in float32 even for bfloat16 logits; the cross-entropy is reported without it.
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


def z_loss(logits: Tensor, labels: Tensor, alpha: float = 1e-4, ignore_index: int = -100) -> ZLoss:
    """Cross-entropy and alpha · (log Z)² over the labels that are not `ignore_index`.

    logits (..., V), labels (...). With alpha = 0 the penalty is exactly 0. DEV-LM of the paper has alpha = 0.1 to 10;
    PaLM used 1e-4, OLMo 1e-5.
    """
    precise = logits if logits.dtype == torch.float64 else logits.float()
    flat, wanted = precise.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    real = wanted != ignore_index
    if not bool(real.any()):
        raise ValueError(f"every label is {ignore_index}: there is nothing to learn from in this batch")
    flat, wanted = flat[real], wanted[real]
    log_z = flat.logsumexp(-1)
    fit = (log_z - flat.gather(1, wanted.unsqueeze(1)).squeeze(1)).mean()
    return ZLoss(fit, alpha * (log_z**2).mean(), log_z.detach())


class Monitor:
    """mu_z and sigma_z over everything added, in float64; mergeable across processes by adding the three sums."""

    def __init__(self) -> None:
        self.count, self.sum, self.squares, self.largest = 0, 0.0, 0.0, 0.0

    def add(self, log_z: Tensor) -> None:
        z = log_z.detach().double()
        self.count += z.numel()
        self.sum += float(z.sum())
        self.squares += float((z * z).sum())
        self.largest = max(self.largest, float(z.abs().max()) if z.numel() else 0.0)

    @property
    def mu_z(self) -> float:
        return self.sum / self.count

    @property
    def sigma_z(self) -> float:
        variance = self.squares / self.count - self.mu_z**2
        return math.sqrt(max(0.0, variance)) if math.isfinite(variance) else math.nan

    def sentence(self) -> str:
        """Is log Z under control? In bfloat16 a logit of size x has steps of about x/128, so drift costs precision."""
        if not self.count:
            return "log Z: no tokens yet."
        state = f"log Z: mean {self.mu_z:+.3f}, spread {self.sigma_z:.3f}, largest {self.largest:.2f} over {self.count:,} tokens"
        if not math.isfinite(self.squares):
            return f"{state}. Out of control: it is not a finite number any more. Go back to the last good checkpoint."
        if self.largest > 60:
            return f"{state}. Out of control: raise alpha tenfold, or lower the learning rate."
        if abs(self.mu_z) > 10:
            return f"{state}. Drifting: a z-loss of 1e-4 would hold it."
        return f"{state}. Under control."


__all__ = ["Monitor", "ZLoss", "z_loss"]

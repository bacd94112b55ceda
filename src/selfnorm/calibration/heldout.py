"""What a normalizer leaves of log Z on contexts that were not fitted on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from selfnorm.calibration.base import Contexts
from selfnorm.nn.normalizers import Normalizer
from selfnorm.nn.output import Output


@dataclass(frozen=True)
class HeldOut:
    """log Z on held-out contexts: before the calibration, and what is left after it."""

    contexts: int
    mu_z_before: float
    sigma_z_before: float
    mu_z: float
    sigma_z: float
    quantile_99: float  # 99 % of the contexts are off by less

    @property
    def rms(self) -> float:
        """Mean and spread together: what decides between calibrations."""
        return math.hypot(self.mu_z, self.sigma_z)


def held_out(head: Output, normalizer: Normalizer, contexts: Contexts, most: int = 1 << 62) -> HeldOut:
    """Exact log Z against the estimate on at most so many contexts."""
    before, after = [], []
    applied = (
        None if head.normalizer is None else normalizer.onto(head)
    )  # it may replace the head's own, or come on top
    with torch.no_grad():
        for c in contexts(most):
            exact = head.log_z(c).cpu().double()
            before.append(exact)
            after.append(exact - normalizer(c).cpu().double() if applied is None else applied.log_z(c).cpu().double())
    raw, left = torch.cat(before), torch.cat(after)
    place = max(1, math.ceil(0.99 * len(left)))
    return HeldOut(
        len(raw), float(raw.mean()), float(raw.std(correction=0)), float(left.mean()), float(left.std(correction=0)),
        float(left.abs().kthvalue(place).values),
    )  # fmt: skip

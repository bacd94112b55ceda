"""SM-LM: the softmax everybody knows."""

from __future__ import annotations

import torch
from torch import Tensor

from selfnorm.criteria.fit import Fitted
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


class Softmax:
    """Maximum likelihood with exact normalization.

        loss(w, c) = -m(w,c) + log Z

    A constant added to every score of a context changes nothing, so log Z may drift anywhere.
    With a penalty alpha·(log Z)² this is DEV-LM (Devlin et al. 2014), and with a small alpha the z-loss of LLMs.
    """

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        m, log_z = output.target_and_log_z(window.targets, c)
        return Fitted(log_z - m, log_z=log_z)

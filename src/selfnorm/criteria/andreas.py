"""AND-LM: raise the target's score and let the penalty alone hold log Z down."""

from __future__ import annotations

import torch
from torch import Tensor

from selfnorm.criteria.fit import Fitted
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


class Score:
    """The bare score of the target; meaningless without a penalty.

        loss(w, c) = -m(w,c)    and the penalty    alpha/gamma · [c in D'] (log Z)²

    Together their optimum is softmax(m) = p with log Z = 1/(2 alpha). The loss has no lower bound until the
    penalty bites, so a high learning rate can overflow; `squash` holds it (Andreas & Klein 2015; eq. 8).
    """

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        return Fitted(-output.m(window.targets, c))

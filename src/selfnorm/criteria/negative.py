"""PMI-LM: negative sampling as in word2vec, with its probabilities recovered."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from selfnorm.criteria.fit import Draw, Fitted
from selfnorm.data.windows import Window
from selfnorm.nn.output import Output


@dataclass(frozen=True)
class Negative:
    """Tell the true next word from noise words by the bare score.

        loss(w, c) = -log σ(m(w,c)) - Σ_i log σ(-m(w_i,c))

    The optimum is m = log p(w|c) - log k·q(w), a shifted PMI, so log p = m + log k·q(w): after training that
    term goes into each word's bias and the model is an ordinary one (Melamud et al. 2016). Before training it is taken
    out of the bias, so that the recovered model starts where all others do. Then this is NCE in other words, step by step.
    """

    draw: Draw

    def __post_init__(self) -> None:
        self.draw.log_kq_per_word()  # refused now, not after an epoch, if the noise has none

    def __call__(self, output: Output, c: Tensor, window: Window, rng: torch.Generator) -> Fitted:
        drawn = self.draw(output, c, window, rng)
        true = F.logsigmoid(output.m(window.targets, c))
        return Fitted(-true - F.logsigmoid(-drawn.m).sum(-1))

    def start(self, output: Output) -> None:
        with torch.no_grad():
            output.bias.sub_(self.draw.log_kq_per_word().to(output.bias).view(-1, 1))

    def recover(self, output: Output) -> Output:
        return output.plus_per_word(self.draw.log_kq_per_word().to(output.bias))

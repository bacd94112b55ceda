"""LanguageModel = encoder + output."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from selfnorm.config.recipe import Model
from selfnorm.nn.encoders import Encoder, State, make_encoder
from selfnorm.nn.hierarchical import KINDS
from selfnorm.nn.normalizers import Mlp
from selfnorm.nn.output import Output

# A normalizer moves all scores of a context at once, so a loss summed over 20 steps is about 20 (1 + |c|²) times as curved in
# its direction as in a word's score: at the words' learning rate log Z would oscillate.
LEARNED = 0.05


class LanguageModel(nn.Module):
    """Words to context vectors (encoder) and context vectors to scores (output)."""

    def __init__(self, encoder: Encoder, output: Output) -> None:
        super().__init__()
        self.encoder, self.output = encoder, output

    def contexts(self, tokens: Tensor, state: State | None, rng: torch.Generator | None = None) -> tuple[Tensor, State]:
        """(B, T) ids -> c (B, T, d) and the next state."""
        c, following = self.encoder(tokens, state, rng)
        return c, following

    def with_output(self, output: Output) -> LanguageModel:
        """The same encoder under another output layer."""
        return LanguageModel(self.encoder, output)


def build(
    settings: Model, V: int, rng: torch.Generator, output: str = "full", normalizer: bool = False
) -> LanguageModel:
    """A model with fresh weights, uniform in [-init, init] from `rng`; output biases at -log V.

    A normalizer that is trained with the model starts at zero. Always made on the CPU, so that a seed means the same weights
    wherever they are trained.
    """
    link = "squash" if settings.squash else ""
    with torch.device("cpu"):
        encoder = cast(Encoder, make_encoder(settings, V))
        layer = Output(V, settings.d, link) if output == "full" else KINDS[output](V, settings.d)
    model = LanguageModel(encoder, cast(Output, layer))  # the others answer the same calls
    encoder.initialize(settings.init, rng)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name != "bias":
                parameter.uniform_(-settings.init, settings.init, generator=rng)
    if normalizer:
        model.output.normalizer = _learned(settings.d, rng)
    if settings.tied and output == "full":
        model.output.weight = encoder.table
    return model


def _learned(d: int, rng: torch.Generator) -> nn.Module:
    with torch.device("cpu"):
        network = Mlp(d, (64,), scale=LEARNED)
    network.scatter(rng)
    return network

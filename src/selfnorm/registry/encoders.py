"""The encoders by name: networks that turn the words so far into a context vector c."""

from __future__ import annotations

from dataclasses import dataclass

from selfnorm.registry import Registry


@dataclass(frozen=True)
class EncoderInfo:
    """`make` is called with V and the recipe's [model] section; nn/encoders.py says what the result has."""

    make: str
    optimizer: str = "sgd"  # of its dense parameters, where the recipe names none


ENCODERS: Registry[EncoderInfo] = Registry("model.encoder", {
    "lstm": EncoderInfo("selfnorm.nn.recurrent:lstm"),
    "gru": EncoderInfo("selfnorm.nn.recurrent:gru"),
    "transformer": EncoderInfo("selfnorm.nn.transformer:Transformer", optimizer="adamw"),
})  # fmt: skip

"""The formats of n-best lists by name."""

from __future__ import annotations

from dataclasses import dataclass

from selfnorm.registry import Registry


@dataclass(frozen=True)
class FormatInfo:
    """`make` is a class that reads and writes the format (tasks/nbest/base.py says what it has)."""

    make: str


FORMATS: Registry[FormatInfo] = Registry("format", {
    "kaldi": FormatInfo("selfnorm.tasks.nbest.kaldi:Kaldi"),
    "srilm": FormatInfo("selfnorm.tasks.nbest.srilm:Srilm"),
    "nemo": FormatInfo("selfnorm.tasks.nbest.nemo:Nemo"),
    "moses": FormatInfo("selfnorm.tasks.nbest.moses:Moses"),
    "jsonl": FormatInfo("selfnorm.tasks.nbest.jsonl:Jsonl"),
})  # fmt: skip

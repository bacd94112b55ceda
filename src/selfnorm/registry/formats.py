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
    "espnet": FormatInfo("selfnorm.tasks.nbest.espnet:Espnet"),
    "whisper": FormatInfo("selfnorm.tasks.nbest.whisper:Whisper"),
    "slf": FormatInfo("selfnorm.tasks.nbest.slf:Slf"),
    "kaldi_lattice": FormatInfo("selfnorm.tasks.nbest.kaldi_lattice:KaldiLattice"),
    "moses": FormatInfo("selfnorm.tasks.nbest.moses:Moses"),
    "jsonl": FormatInfo("selfnorm.tasks.nbest.jsonl:Jsonl"),
})  # fmt: skip

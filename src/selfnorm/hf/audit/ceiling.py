"""What skipping log Z could gain at best on a model: the head's multiply-adds against those of everything else."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from selfnorm.hf.adapter import Adapter

WORTH, LITTLE = 0.5, 0.15  # head over body


@dataclass(frozen=True)
class Ceiling:
    """Multiply-adds per scored token. gain: how much faster scoring could be if the head cost nothing."""

    head: float
    body: float

    @property
    def ratio(self) -> float:
        return self.head / max(1.0, self.body)

    @property
    def gain(self) -> float:
        return 1 + self.ratio

    def sentences(self) -> list[str]:
        """What the numbers mean for somebody who has to decide."""
        share = f"The head is {self.ratio:.2g} times the body, so skipping log Z can make scoring at most {self.gain:.2f} times as fast."
        if self.ratio < LITTLE:
            verdict = f"{share} Do not bother: the body decides the time. If memory is the trouble, chunked exact log Z is enough."
        elif self.ratio < WORTH:
            verdict = f"{share} Little to gain: worth a try on a CPU only. If memory is the trouble, chunked exact log Z is enough."
        else:
            verdict = f"{share} Worth it for scoring given tokens on a CPU: the head rivals the body."
        return [
            verdict,
            "These are multiply-adds, an upper bound: screen and int8 take a seventh to four fifths of the time of exact log Z on a CPU "
            "with a C compiler, if d is some hundreds; without a compiler, in batches, often more than it.",
            "Nothing is gained for generation, greedy decoding and published perplexities, which need every logit or exact values, "
            "nor for choices between single tokens, where log Z cancels.",
        ]


def ceiling(adapter: Adapter, ids: torch.Tensor) -> Ceiling:
    """Count the matrix products of one window (T,) of tokens; experts that are not used do not count."""
    with FlopCounterMode(display=False) as counter:
        adapter.contexts(ids.unsqueeze(0))
    return Ceiling(float(adapter.head.V * adapter.head.d), counter.get_total_flops() / 2 / len(ids))

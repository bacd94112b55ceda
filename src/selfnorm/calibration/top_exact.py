"""What screen and int8 share: a preview of all scores, the largest of them replaced by exact ones, log-sum-exp over both."""

from __future__ import annotations

import torch
from torch import Tensor

from selfnorm.nn.normalizers import Normalizer
from selfnorm.nn.output import Output, link_of
from selfnorm.nn.precision import without_autocast
from selfnorm.nn.reductions import in_threads, log_sum_replaced, row_scores, top_words

HELD = 1 << 24  # bytes of scores held at a time: they are read several times, so they should stay in a cache


class TopExact(Normalizer):
    """g(c) = logsumexp over the exact scores of the `top` words of a preview and the preview of all others.

    The rows of the head are shared, never copied. The largest score is among the exact ones, so g(c) is hardly ever below
    it: log p does not exceed 0 by more than the preview errs.
    """

    top: Tensor

    def __init__(self, head: Output, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor.to(head.weight.device))
        self.count = int(tensors["top"])
        if not 1 <= self.count <= head.V:
            raise ValueError(f"{self.count} exact words of {head.V}")
        self._head = (head.without_normalizer(),)  # in a tuple: it is not a part of this module

    @property
    def head(self) -> Output:
        return self._head[0]

    def preview_scores(self, c: Tensor) -> Tensor:
        """w·c + b_w of all words (n, V), approximately, before the link."""
        raise TypeError("TopExact is a base class: use Screen or Int8")

    def multiply_adds(self) -> float:
        """Per context; an int8 multiply-add counts as a quarter, a bf16 one as a half."""
        raise TypeError("TopExact is a base class: use Screen or Int8")

    @without_autocast
    @torch.no_grad()
    def forward(self, c: Tensor) -> Tensor:
        head, flat = self._head[0], c.reshape(-1, c.shape[-1])
        size = max(1, min(512, HELD // (4 * head.V)))
        parts = [self._log_z(head, piece) for piece in torch.split(flat, size)]
        return (torch.cat(parts) if parts else flat.new_zeros(0)).view(c.shape[:-1])

    def _log_z(self, head: Output, c: Tensor) -> Tensor:
        m = link_of(head.link)(self.preview_scores(c))
        log_z = m.new_empty(len(m))

        def finish(some: slice) -> None:
            words = top_words(m[some], self.count)
            log_z[some] = log_sum_replaced(m[some], words, exact_scores(head, c[some], words))

        in_threads(finish, m)
        return log_z


def exact_scores(head: Output, c: Tensor, words: Tensor) -> Tensor:
    """m of each context's own words (n, k)."""
    return link_of(head.link)(row_scores(head.weight, head.bias, c, words))

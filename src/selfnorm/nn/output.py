"""Output: m(w,c) = w·c + b_w and log Z; the only place either is computed.

Looking up words touches only their rows, forward and backward (sparse gradients). Only log Z reads all V rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfnorm.nn.log_z import blocks, log_z_and_mean_score, rows, scores, target_and_log_z
from selfnorm.nn.normalizers import Affine, Sum
from selfnorm.nn.precision import HALF, widened, without_autocast


def squash(x: Tensor) -> Tensor:
    """10 tanh(x/5): keeps scores within ±10, so log Z cannot go below log V - 10 (Chen, Grangier & Auli 2016)."""
    return 10 * torch.tanh(x / 5)


LINKS: dict[str, Callable[[Tensor], Tensor]] = {"": lambda x: x, "squash": squash, "log_sigmoid": F.logsigmoid}


def link_of(name: str) -> Callable[[Tensor], Tensor]:
    """A link by name, or written as "scale=0.125", "cap=30" or "scale=0.125,cap=30": x -> cap · tanh(scale · x / cap)."""
    if name in LINKS:
        return LINKS[name]
    scale, cap = scale_of(name), _numbers(name).get("cap", 0.0)
    return (lambda x: cap * torch.tanh(x * (scale / cap))) if cap else (lambda x: x * scale)


def scale_of(link: str) -> float:
    """What a written link multiplies scores by; 1 for the named ones."""
    return 1.0 if link in LINKS else _numbers(link).get("scale", 1.0)


def _numbers(link: str) -> dict[str, float]:
    return {key: float(value) for key, _, value in (part.partition("=") for part in link.split(","))}


class Output(nn.Module):
    """m(w,c) = link(w·c + b_w) - g(c), with link the identity and g = 0 unless asked for.

    c: (..., d); w: word ids.
    """

    def __init__(self, V: int, d: int, link: str = "", normalizer: nn.Module | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(V, d))
        # Every word starts at -log V, so log Z ≈ 0 before the first step and the penalty has nothing
        # to undo (Devlin et al. 2014; section 5.1 of the paper). A column, because lookups want rows.
        self.bias = nn.Parameter(torch.full((V, 1), -math.log(V)))
        self.link = link
        self.normalizer = normalizer

    @classmethod
    def from_linear(cls, linear: nn.Linear, scale: float = 1.0, cap: float | None = None) -> Output:
        """The output layer over somebody else's nn.Linear(d, V): m = cap · tanh(scale · (w·c + b_w) / cap).

        The rows are shared, never copied or changed, so a table tied to an embedding stays tied. Without gradients.

        >>> head = Output.from_linear(nn.Linear(8, 100, bias=False))
        >>> head.V, head.d, tuple(head.log_z(torch.zeros(3, 8)).shape)
        (100, 8, (3,))
        """
        return cls.from_rows(linear.weight, linear.bias, scale, cap)

    @classmethod
    def from_rows(
        cls, weight: Tensor, bias: Tensor | None = None, scale: float = 1.0, cap: float | None = None
    ) -> Output:
        """The same from the rows (V, d) and, if there is one, the bias (V,)."""
        if weight.dim() != 2 or (bias is not None and bias.numel() != len(weight)):
            raise ValueError(f"rows (V, d) and a bias (V,) were expected, found {tuple(weight.shape)}")
        scale, cap = float(scale), None if cap is None else float(cap)
        if not scale > 0 or (cap is not None and not cap > 0):
            raise ValueError(f"scale = {scale}, cap = {cap}: both must be above 0")
        head = cls.__new__(cls)
        nn.Module.__init__(head)
        column = weight.new_zeros(len(weight), 1) if bias is None else bias.detach().view(-1, 1)
        head.weight = nn.Parameter(weight.detach(), requires_grad=False)
        head.bias = nn.Parameter(column, requires_grad=False)
        parts = [f"scale={scale!r}"] * (scale != 1) + [f"cap={cap!r}"] * (cap is not None)
        head.link, head.normalizer = ",".join(parts), None
        return head

    @property
    def V(self) -> int:
        return len(self.weight)

    @property
    def d(self) -> int:
        return self.weight.shape[1]

    def in_precision(self, c: Tensor) -> Tensor:
        """c in the precision of the rows; float32 where these have half precision."""
        return c.to(torch.float32 if self.weight.dtype in HALF else self.weight.dtype)

    @without_autocast
    def m(self, w: Tensor, c: Tensor) -> Tensor:
        """One word a context: w and the scores are shaped like c without its last axis."""
        c = self.in_precision(c)
        rows, bias = self._rows(w)
        return self._finish((rows * c).sum(-1) + bias, c)

    @without_autocast
    def m_each(self, w: Tensor, c: Tensor) -> Tensor:
        """k words a context: w (..., k), whose leading axes may be fewer than c's, to scores (..., k)."""
        c = self.in_precision(c)
        rows, bias = self._rows(w)
        letters = "xyz"[3 - (c.dim() - 1) :]
        shared = letters[len(letters) - (w.dim() - 1) :]
        return self._finish(torch.einsum(f"{letters}d,{shared}kd->{letters}k", c, rows) + bias, c)

    @without_autocast
    def m_shared(self, w: Tensor, c: Tensor) -> Tensor:
        """The same k words (k,) for every context: (..., k), one product."""
        c = self.in_precision(c)
        rows, bias = self._rows(w)
        return self._finish(c @ rows.t() + bias, c)

    @without_autocast
    def target_and_log_z(self, w: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """m(w,c) and exact log Z, both shaped like w, from one pass over the scores."""
        c = self.in_precision(c)
        flat = c.reshape(-1, self.d)
        if self.link:
            return self.m(w, c), self.log_z(c)
        m, log_z = target_and_log_z(flat, self.weight, self.bias, w.reshape(-1))
        g = self._g(c)
        return m.view(w.shape) - g, log_z.view(w.shape) - g

    @without_autocast
    def log_z(self, c: Tensor) -> Tensor:
        """Exact log Z (...,), in blocks of contexts and words: without gradients (N, V) is never held.

        With gradients it is held if it fits a budget; behind a link, always.
        """
        c = self.in_precision(c)
        flat = c.reshape(-1, self.d)
        if self.link:
            parts = [self._log_z_behind_link(flat[some]) for some in rows(len(flat))]
            log_z = torch.cat(parts) if parts else flat.new_zeros(0)
        else:
            first = torch.zeros(len(flat), dtype=torch.long, device=flat.device)
            log_z = target_and_log_z(flat, self.weight, self.bias, first)[1]
        return log_z.view(c.shape[:-1]) - self._g(c)

    @without_autocast
    def log_z_and_entropy(self, c: Tensor) -> tuple[Tensor, Tensor]:
        """log Z (N,) and the entropy H_c = log Z - Σ p·m of softmax(m) (N,), without gradients."""
        c = self.in_precision(c)
        with torch.no_grad():
            some_or_none = list(rows(len(c))) or [slice(0)]
            pairs = [log_z_and_mean_score(c[some], self.weight, self.bias, link_of(self.link)) for some in some_or_none]
            log_z, mean = (torch.cat(column) for column in zip(*pairs, strict=True))
            return log_z - self._g(c), log_z - mean

    @without_autocast
    def all_m(self, c: Tensor) -> Tensor:
        """Every word's score (N, V): for a few contexts only."""
        c = self.in_precision(c)
        return self._linked(c) - self._g(c).unsqueeze(-1)

    def minus(self, a: Tensor, b: Tensor) -> Output:
        """A new Output whose m is m - (a·c + b): folded into the rows where the link is the identity.

        Rows of half precision stay as they are, because they would round what is folded in.
        """
        if self.link or self.weight.dtype in HALF:
            a, b = (self.in_precision(x).to(self.weight.device) for x in (a, b))
            return self.with_normalizer(Affine.of(a, b).requires_grad_(False))
        other = self._copy()
        with torch.no_grad():
            other.weight.sub_(a)
            other.bias.sub_(b)
        return other

    def plus_per_word(self, per_word: Tensor) -> Output:
        """A new Output whose m(w,c) is m(w,c) + per_word[w]."""
        other = self._copy()
        with torch.no_grad():
            other.bias.add_(per_word.view(-1, 1))
        return other

    def with_normalizer(self, normalizer: nn.Module) -> Output:
        """A new Output that shares these rows and also subtracts normalizer(c) from every score."""
        return self._sharing(normalizer if self.normalizer is None else Sum(self.normalizer, normalizer))

    def without_normalizer(self) -> Output:
        """A new Output that shares these rows and subtracts nothing."""
        return self._sharing(None)

    def _sharing(self, normalizer: nn.Module | None) -> Output:
        other = Output.__new__(Output)
        nn.Module.__init__(other)
        other.weight, other.bias, other.link, other.normalizer = self.weight, self.bias, self.link, normalizer
        return other

    def with_link(self, link: str) -> Output:
        other = self._copy()
        other.link = link
        return other

    def _copy(self) -> Output:
        other = self._sharing(self.normalizer)
        other.weight, other.bias = (
            nn.Parameter(p.detach().clone(), requires_grad=p.requires_grad) for p in (self.weight, self.bias)
        )
        return other

    def _rows(self, w: Tensor) -> tuple[Tensor, Tensor]:
        bias = F.embedding(w, self.bias, sparse=True).squeeze(-1)
        return widened(F.embedding(w, self.weight, sparse=True)), widened(bias)

    def _log_z_behind_link(self, c: Tensor) -> Tensor:
        parts = [self._linked(c, b).logsumexp(1) for b in blocks(len(c), self.V)]
        return torch.stack(parts, dim=1).logsumexp(1)

    def _linked(self, c: Tensor, words: slice = slice(None)) -> Tensor:
        return link_of(self.link)(scores(c, self.weight[words], self.bias[words]))

    def _g(self, c: Tensor) -> Tensor:
        g: Tensor = c.new_zeros(()) if self.normalizer is None else self.normalizer(c)
        return g

    def _finish(self, x: Tensor, c: Tensor) -> Tensor:
        g = self._g(c)
        m = link_of(self.link)(x) - (g.unsqueeze(-1) if x.dim() > g.dim() > 0 else g)
        return m

"""A tabular problem on which every criterion's expected loss can be written down and minimized exactly.

One context, V words, one bias per word. Targets follow p and noise follows q; both expectations are taken by listing
every case: B = V targets, T = every tuple of k noise words, each with its weight.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from selfnorm.criteria.fit import Draw
from selfnorm.data.windows import Window
from selfnorm.nn.noise import Noise
from selfnorm.nn.output import Output

V, K = 7, 2
rng = np.random.default_rng(3)
P = torch.from_numpy(rng.dirichlet(np.full(V, 1.0)))
Q = torch.from_numpy(rng.dirichlet(np.full(V, 2.0)))


class EveryTuple(Noise):
    """Instead of drawing, lists every tuple of k words for every target; float64 log q."""

    def __init__(self, q: Tensor, k: int = K) -> None:
        super().__init__(q.numpy())
        self._log_p = q.log()
        self.tuples = torch.tensor(list(itertools.product(range(len(q)), repeat=k)))

    def sample(self, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
        B, T, k = shape
        assert (T, k) == self.tuples.shape, "the battery lists every tuple, shared = token"
        return self.tuples.expand(B, T, k)

    def weights(self) -> Tensor:
        return self._log_p[self.tuples].sum(1).exp()


class Stratified(Noise):
    """k words that hold every word exactly k·q times: the law of large numbers without the numbers."""

    def __init__(self, q: Tensor, k: int) -> None:
        counts = (q * k).round().long().clamp(min=1)
        super().__init__((counts / counts.sum()).numpy())
        self._log_p = (counts.double() / counts.sum()).log()
        self.words = torch.repeat_interleave(torch.arange(len(q)), counts)

    def sample(self, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
        return self.words


def one_word_each(T: int) -> Window:
    targets = torch.arange(V).unsqueeze(1).expand(V, T)
    return Window(torch.zeros_like(targets), targets)


def minimize(criterion, noise_weights: Tensor, link: str = "", normalizer=None, p: Tensor = P) -> Output:
    """The Output (float64) that minimizes the criterion's expected loss on the tabular problem."""
    output = Output(V, 1, link, normalizer).double()
    T = len(noise_weights)
    window, c = one_word_each(T), torch.ones(V, T, 1, dtype=torch.float64)
    weight = p.unsqueeze(1) * noise_weights
    optimizer = torch.optim.LBFGS(
        [output.bias],
        lr=1.0,
        max_iter=400,
        tolerance_grad=1e-11,
        tolerance_change=1e-14,
        history_size=30,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = criterion(output, c, window, torch.Generator().manual_seed(0))
        total = (weight * (loss.fit if loss.penalty is None else loss.fit + loss.penalty)).sum()
        total.backward()
        output.bias.grad = output.bias.grad.to_dense() if output.bias.grad.is_sparse else output.bias.grad
        return total

    for _ in range(5):
        optimizer.step(closure)
    return output


def draw_every_tuple() -> Draw:
    return Draw(EveryTuple(Q), K, "token")


def all_m(output: Output) -> Tensor:
    with torch.no_grad():
        return output.all_m(torch.ones(1, 1, dtype=torch.float64)).squeeze(0)

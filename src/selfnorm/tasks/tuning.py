"""Find the weights of the language model and of the number of words on a development set.

The grid is in units of the lists' own scores, so that scores in other units tune to the same choice:

    lm weight   in units of (spread of the scores) / (spread of the LM scores) within a list
    word        in units of (spread of the scores) / (spread of the number of words)

A point is judged by the mean loss of itself and its neighbours on the grid, so that a plateau wins over a narrow dip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from selfnorm.tasks.rescoring import Array, Table, Weights
from selfnorm.tasks.wer import Counts

Picks = NDArray[np.int64]
Loss = Callable[[Picks], float]  # of the hypothesis chosen in each list: smaller is better
FOLDS = 5
FEW = 200  # lists: fewer give weights that may not hold


@dataclass(frozen=True)
class Tuned:
    """Weights, their loss on the development set, and the loss of folds that were tuned on the other folds."""

    weights: Weights
    loss: float
    cross_validated: float | None


class Development:
    """The tables of a development set in one array each, padded with -inf totals."""

    def __init__(self, tables: Sequence[Table]) -> None:
        longest = max((len(t.rows) for t in tables), default=0)
        self.rows = np.zeros((len(tables), longest, 4))
        self.real = np.zeros((len(tables), longest), dtype=bool)
        for place, table in enumerate(tables):
            self.rows[place, : len(table.rows)] = table.rows
            self.real[place, : len(table.rows)] = True

    def picks(self, weights: Weights) -> Picks:
        """The best hypothesis of each list."""
        totals = weights.total(self.rows.reshape(-1, 4)).reshape(self.real.shape)
        chosen: Picks = np.where(self.real, totals, -np.inf).argmax(1)
        return chosen

    def unit(self, column: int) -> float:
        """How far scores spread within a list over how far this column does; 1 where either does not."""
        ours, theirs = self._spread(0), self._spread(column)
        return ours / theirs if ours and theirs else 1.0

    def _spread(self, column: int) -> float:
        spreads = [float(self.rows[i, real, column].std()) for i, real in enumerate(self.real) if real.sum() > 1]
        return float(np.mean(spreads)) if spreads else 0.0


def tune(development: Development, loss: Loss, old_lm: bool = False) -> Weights:
    """The weights in the middle of the best plateau: a coarse grid, then finer ones around the best."""
    units = [development.unit(3), development.unit(2), development.unit(1)]
    axes: list[Array] = [
        np.array([0.0, *(2.0 ** np.arange(-6, 6))]),
        np.linspace(-6, 6, 13),
        np.array([0.0, *(2.0 ** np.arange(-4, 4))]) if old_lm else np.zeros(1),
    ]
    best = np.zeros(3)
    for _ in range(4):
        best = _best_of(axes, lambda point: loss(development.picks(_weights(point, units))))
        axes = [_finer(axis, value) for axis, value in zip(axes, best, strict=True)]
    chosen, alone = _weights(best, units), Weights(0.0)
    return chosen if loss(development.picks(chosen)) <= loss(development.picks(alone)) else alone


def _weights(point: Array, units: Sequence[float]) -> Weights:
    lm, word, old = (float(x * unit) for x, unit in zip(point, units, strict=True))
    return Weights(lm, word, old)


def _best_of(axes: Sequence[Array], loss: Callable[[Array], float]) -> Array:
    """The grid point whose neighbourhood has the smallest mean loss; among equals the one nearest to no change."""
    values = np.array([loss(np.array(point)) for point in product(*axes)]).reshape([len(axis) for axis in axes])
    smooth = values
    for axis in range(values.ndim):
        if values.shape[axis] > 2:
            edges = np.pad(smooth, [(1, 1) if a == axis else (0, 0) for a in range(values.ndim)], mode="edge")
            parts = [np.take(edges, np.arange(values.shape[axis]) + shift, axis) for shift in range(3)]
            smooth = (parts[0] + parts[1] + parts[2]) / 3
    points = list(product(*axes))
    order = min(range(len(points)), key=lambda i: (round(float(smooth.flat[i]), 9), abs(points[i][1]), points[i][0]))
    return np.array(points[order])


def _finer(axis: Array, value: float) -> Array:
    """Seven points between the neighbours of a grid's point."""
    if len(axis) == 1:
        return axis
    place = int(np.argmin(np.abs(axis - value)))
    low, high = axis[max(0, place - 1)], axis[min(len(axis) - 1, place + 1)]
    return np.linspace(low, high, 7)


def tune_on(tables: Sequence[Table], loss: Callable[[Picks, Picks], float], old_lm: bool = False) -> Tuned:
    """Tune on all lists, and say what tuning is worth by cross-validation. `loss` takes picks and the places of their lists."""
    every, n = Development(tables), len(tables)
    weights = tune(every, lambda picks: loss(picks, np.arange(n)), old_lm)
    return Tuned(weights, loss(every.picks(weights), np.arange(n)), _cross_validated(tables, loss, old_lm))


def _cross_validated(tables: Sequence[Table], loss: Callable[[Picks, Picks], float], old_lm: bool) -> float | None:
    if len(tables) < 2 * FOLDS:
        return None
    fold = np.random.default_rng(0).permutation(len(tables)) % FOLDS
    picks = np.zeros(len(tables), dtype=np.int64)
    for number in range(FOLDS):
        inside, outside = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        part = Development([tables[int(i)] for i in inside])
        weights = tune(part, lambda chosen, inside=inside: loss(chosen, inside), old_lm)  # type: ignore[misc]
        picks[outside] = Development([tables[int(i)] for i in outside]).picks(weights)
    return loss(picks, np.arange(len(tables)))


def word_errors(counts: Sequence[Counts], words: int) -> Callable[[Picks, Picks], float]:
    """Errors per reference word of the picks in these lists (as a share of all reference words)."""

    def loss(picks: Picks, lists: Picks) -> float:
        return sum(int(counts[i][p]) for p, i in zip(picks, lists, strict=True)) / max(1, words)

    return loss

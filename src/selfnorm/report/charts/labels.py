"""Labels beside points that cover neither each other nor other points; one that fits nowhere is left to the hover."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LETTER, HEIGHT, GAP, POINT = 6.2, 11.0, 7.0, 4.0  # pixels at font size 10


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


@dataclass(frozen=True)
class Label:
    """Where a label is from its point, in pixels; align "" where none fits."""

    dx: float = 0.0
    dy: float = 0.0
    align: str = ""


def place(points: Sequence[tuple[float, float]], texts: Sequence[str], width: float, height: float) -> list[Label]:
    """A label for each text, in order of importance, beside its point; points beyond the texts are only kept clear."""
    taken = [Box(x - POINT, y - POINT, x + POINT, y + POINT) for x, y in points]
    labels = []
    for (x, y), text in zip(points, texts, strict=False):
        label = next((one for one in _candidates() if _fits(_box(x, y, text, one), taken, width, height)), Label())
        if label.align:
            taken.append(_box(x, y, text, label))
        labels.append(label)
    return labels


def _candidates() -> list[Label]:
    near = [Label(GAP, 0, "left"), Label(-GAP, 0, "right"), Label(0, -11, "center"), Label(0, 12, "center")]
    far = [Label(GAP, side * 9, "left") for side in (-1, 1)] + [Label(-GAP, side * 9, "right") for side in (-1, 1)]
    return near + far


def _box(x: float, y: float, text: str, label: Label) -> Box:
    wide, start = LETTER * len(text), x + label.dx
    left = {"left": start, "right": start - wide, "center": start - wide / 2}[label.align]
    return Box(left, y + label.dy - HEIGHT / 2, left + wide, y + label.dy + HEIGHT / 2)


def _fits(box: Box, taken: Sequence[Box], width: float, height: float) -> bool:
    inside = box.left >= 0 and box.right <= width and box.top >= 0 and box.bottom <= height
    return inside and not any(box.covers(other) for other in taken)


def pixels(value: float, low: float, high: float, size: float, log: bool = False) -> float:
    """Where a value is along an axis."""
    a, b, v = (math.log(x) if log else x for x in (low, high, value))
    return size * (v - a) / (b - a) if b > a else size / 2

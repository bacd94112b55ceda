"""The calibrations by name: estimates of log Z that are subtracted from every score after training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from selfnorm._util.errors import UserError, nearest
from selfnorm.registry import Registry, load_plugins


@dataclass(frozen=True)
class CalibrationInfo:
    """`make` is the class that fits and loads it (calibration/base.py says what such a class has)."""

    help: str
    make: str
    per_context: bool = True  # follows log Z from context to context; False removes a constant only


CALIBRATIONS: Registry[CalibrationInfo] = Registry("calibration", {
    "shift": CalibrationInfo("the validation mean; free", "selfnorm.calibration.shift:Shift", per_context=False),
    "affine": CalibrationInfo("least squares on c; free", "selfnorm.calibration.affine:LeastSquares"),
    "mlp": CalibrationInfo("a small network of c; best for word models", "selfnorm.calibration.mlp:Network"),
    "screen": CalibrationInfo(
        "a low-rank preview of all scores, the largest exact; best for language model heads", "selfnorm.calibration.screen:Screening"),
    "int8": CalibrationInfo("all scores in eight bits, the largest exact", "selfnorm.calibration.int8:Quantization"),
})  # fmt: skip


def kinds() -> tuple[str, ...]:
    """Every calibration's name, "none" first; those of plugins too."""
    load_plugins()
    return ("none", *CALIBRATIONS)


def check_kind(kind: str) -> str:
    """The name itself, if there is such a calibration."""
    if kind not in kinds():
        raise UserError(f'calibration "{kind}" is unknown.{nearest(kind, kinds())} Known: {", ".join(kinds())}.')
    return kind


def multiply_adds(kind: str, d: int, facts: Mapping[str, Any]) -> float | None:
    """Per context when the calibration is used: 0 where it folds into the output layer; None where `facts` do not say.

    `facts` is what calibration.json holds. For mlp: d·frequent for the rows, then the network's layers.
    """
    if kind in ("none", "shift", "affine"):
        return 0.0
    if kind == "mlp" and "hidden" in facts:
        frequent = int(facts.get("frequent", 0))
        sizes = [d + bool(frequent), *facts["hidden"], 1]
        return float(frequent * d + sum(a * b for a, b in pairwise(sizes)))
    known = facts.get("multiply_adds")
    return None if known is None else float(known)

"""Measurement: the numbers of one model on one text, with the signature that says what they are. No torch here."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from selfnorm._util.change import checked_if_listed
from selfnorm._util.files import read_json, write_json
from selfnorm._util.schema import check
from selfnorm.config.schemas import MEASUREMENT

TIMES, COST = "times", "cost"  # the steps that time scoring and training, and the kind_of_result of their JSON


@dataclass(frozen=True)
class Measurement:
    """mu_z, sigma_z, perplexity and u_perplexity of one model on one text."""

    signature: str
    mu_z: float
    sigma_z: float
    perplexity: float
    u_perplexity: float
    correlation: float  # of entropy and log Z
    words: int
    seconds: float
    seed: int
    command: str = ""
    date: str = ""
    machine: str = ""
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)  # 95 %, block bootstrap
    blocks: list[list[float]] = field(default_factory=list)  # sums over consecutive words, for paired differences
    histogram: dict[str, Any] = field(default_factory=dict)  # of log Z
    entropy_histogram: dict[str, Any] = field(default_factory=dict)  # entropy x log Z
    theory: dict[str, Any] = field(default_factory=dict)  # Theorems 1 and 2, where the truth is known
    notes: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)  # what the signature was made from, as data
    split: str = ""
    calibration: str = "none"
    trained: float = 0.0  # epochs
    fitted: str = ""  # how the calibration was fitted

    def __repr__(self) -> str:
        """The numbers, without the blocks and histograms."""
        numbers = ("mu_z", "sigma_z", "perplexity", "u_perplexity", "correlation")
        shown = ", ".join(f"{name}={getattr(self, name):.4g}" for name in numbers)
        return f"Measurement({shown}, words={self.words}, signature={self.signature!r})"

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))


def read_measurement(path: Path) -> Measurement:
    return as_measurement(read_json(checked_if_listed(path)), path)


def as_measurement(table: Any, path: Path) -> Measurement:
    """The measurement that a file holds; an entry that is missing or wrong is named."""
    check(table, MEASUREMENT, f"{path} is not a whole measurement:", "Make it again with: selfnorm measure RUN")
    names = {f.name for f in fields(Measurement)}
    return Measurement(**{name: value for name, value in table.items() if name in names})

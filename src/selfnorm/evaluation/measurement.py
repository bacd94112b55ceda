"""Measurement: the numbers of one model on one text, with the signature that says what they are. No torch here."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from selfnorm._util.errors import UserError
from selfnorm._util.files import is_number, read_json, write_json
from selfnorm.config.signature import IN_SIGNATURE, parse_signature

NUMBERS = ("mu_z", "sigma_z", "perplexity", "u_perplexity", "correlation", "words", "seconds", "seed")
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
    table = read_json(path)
    names = {f.name for f in fields(Measurement)}
    missing = {f.name for f in fields(Measurement) if f.default is MISSING and f.default_factory is MISSING} - set(
        table
    )
    if missing:
        raise UserError(
            f"{path} is not a measurement: {', '.join(sorted(missing))} missing. Make one with: selfnorm measure RUN"
        )
    wrong = [name for name in NUMBERS if not is_number(table[name])]
    wrong += [f"signature {name}" for name in IN_SIGNATURE if name not in parse_signature(str(table["signature"]))]
    if wrong:
        raise UserError(
            f"{path} is not a whole measurement: {wrong[0]} is wrong. Make it again with: selfnorm measure RUN"
        )
    return Measurement(**{name: value for name, value in table.items() if name in names})

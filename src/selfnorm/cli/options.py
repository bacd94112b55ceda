"""Options that several commands share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from selfnorm._util.console import say
from selfnorm._util.errors import UserError
from selfnorm._util.files import require_file_or_nothing

if TYPE_CHECKING:
    from selfnorm.data.vocab import Unknown
    from selfnorm.scoring.scorer import Scorer

Changes = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", help="Change one value: --set criterion.alpha=10. Repeat for more."),
]
From = Annotated[str, Parameter(name="--from", help="Folder that holds the text; also SELFNORM_DATA.")]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON for programs.")]
Normalized = Annotated[bool, Parameter(negative="", help="Compute log Z exactly: slower, always right.")]
Kind = Annotated[
    str | None,
    Parameter(help="none, shift, affine, mlp, screen or int8: instead of the calibration in use in the run."),
]
Format = Annotated[
    str,
    Parameter(
        name="--format", help="jsonl, kaldi, srilm, nemo, espnet, whisper, moses, slf (HTK lattices) or kaldi_lattice."
    ),
]
SkipBad = Annotated[
    bool, Parameter(negative="", help="Skip lines (in JSON: hypotheses) that cannot be read, and count them.")
]
Device = Annotated[
    str, Parameter(help="cpu, cuda, cuda:1, mps or auto. Without it: as the run was trained, where that is here.")
]
Tokenized = Annotated[
    bool, Parameter(negative="", help="The text is tokenized already: words separated by spaces, taken as they are.")
]

Hf = Annotated[
    list[str] | None,
    Parameter(
        name="--hf",
        negative="",
        help="For hf:FOLDER: case=as-is|lower|sentence, space=yes (before the first word), start=TOKEN, end=TOKEN, "
        "dtype=bfloat16, cost=SHARE or sigma=NATS (which normalizer of --calibration AUDIT_FOLDER). Repeat for more.",
    ),
]

MANY = 0.2  # of the words unknown: worth a warning


def warn_of_unknown(unknown: Unknown) -> None:
    if unknown.marks:
        say(f"The text has the word <eos> {unknown.marks:,} times: each is scored as the end of a sentence.")
    if unknown.share > MANY:
        say(
            f"{unknown.unknown:,} of {unknown.words:,} words are not in the vocabulary. Is the text tokenized as the training text was?"
        )


def check_jobs(asked: int) -> int:
    """The number of trainings side by side: as asked, or one per core."""
    if asked < 0:
        raise UserError(f"--jobs {asked}: give the number of trainings side by side, or 0 for one per core.")
    return asked or os.cpu_count() or 1


def output_file(path: Path, run: Path, *inputs: Path | None) -> Path:
    """Where a command writes: behind a link what it leads to; no file of the run, and nothing that it reads."""
    from selfnorm.runs.folder import is_own_file

    if path.name == "-":
        raise UserError("- stands for stdin; name a file to write to.")
    require_file_or_nothing(path)
    try:
        place = path.resolve()
    except (OSError, RuntimeError):
        raise UserError(f"{path} is a link that leads to itself. Name another file.") from None
    if is_own_file(run, place):
        raise UserError(f"{path} is a file of the run {run}, so it cannot be written. Name another file.")
    folders = [Path(str(run).removeprefix("hf:"))] if is_hf(run) else []
    for given in (given.resolve() for given in (*inputs, *folders) if given is not None and given.exists()):
        if given == place or (place.exists() and place.samefile(given)):
            raise UserError(f"{path} is read by this command, so it cannot be written. Name another file.")
        if given in place.parents:
            raise UserError(f"{path} is in a folder that this command reads. Name a file in another folder.")
    return place if path.is_symlink() else path


def require_stdout() -> None:
    """Results are printed: somebody must be able to read them."""
    if sys.stdout is None:
        raise UserError("stdout is closed: results could not be printed.")


def is_hf(run: Path) -> bool:
    """Does this name a model of transformers (hf:FOLDER) and not a run folder?"""
    return str(run).startswith("hf:")


def refuse_hf(run: Path, option: str, value: str = "given") -> None:
    """Options of run folders are refused for models of transformers."""
    if is_hf(run) and value not in ("", "cpu", "auto"):
        raise UserError(f"{option} is for run folders; {run} is a model of transformers. Leave it out.")


def load_either(run: Path, calibration: str | None, settings: list[str] | None, device: str = "") -> Scorer:
    """A scorer with log Z of a run folder, or of a model of transformers (hf:FOLDER)."""
    refuse_hf(run, "--device", device)
    if is_hf(run):
        from selfnorm.hf.scorer import open_scorer

        return open_scorer(str(run), True, calibration, settings or [])
    from selfnorm.runs.opening import load

    return load(run, normalized=True, calibration=calibration, device=device)

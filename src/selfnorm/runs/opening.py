"""Open a run for use: with the text it was trained on, or as a scorer."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from selfnorm._util.errors import NotSelfNormalized, UserError
from selfnorm.config.criterion import pins
from selfnorm.data.corpus import Corpus, open_corpus
from selfnorm.registry.calibrations import CALIBRATIONS
from selfnorm.runs.calibrations import has_calibration
from selfnorm.runs.folder import Run, open_run
from selfnorm.runs.history import best_line, read_history, text_of
from selfnorm.runs.loading import load_model
from selfnorm.scoring.scorer import Scorer

LARGE = 0.5  # a mean or spread of log Z with which nobody should skip it


class FarFromNormalized(UserWarning):
    """log Z is pinned, but so loosely that scores without it are far off."""


def open_with_text(folder: Path | str, from_: str = "", device: str = "") -> tuple[Run, Corpus]:
    """The run and its corpus; `from_` says where the text is now, if it moved."""
    run = open_run(folder, device)
    return run, text_of_run(run, from_)


def text_of_run(run: Run, from_: str = "") -> Corpus:
    """The text a run was trained on; another one is refused."""
    data = replace(run.recipe.data, tokens=run.tokenizer)
    corpus = open_corpus(replace(data, folder=from_) if from_ else data)
    if text_of(run.folder) not in ("", corpus.fingerprint):
        raise UserError(
            f"The text is not the one {run.folder} was trained with. Was it changed? Name the folder of the original (--from)."
        )
    if corpus.vocab.words != run.vocab.words:
        raise UserError(
            f"The text's vocabulary ({len(corpus.vocab):,} words) is not the one {run.folder} was trained with ({len(run.vocab):,} words). "
            "Was the text changed? Name the folder of the original (--from)."
        )
    return corpus


def load(
    folder: Path | str,
    normalized: bool = False,
    calibration: str | None = None,
    unk_penalty: float = 0.0,
    device: str = "",
    trust: bool = False,
) -> Scorer:
    """A Scorer for a run folder: `load("runs/nce").score("Raw text.")`.

    normalized    compute log Z exactly: slower, always right
    calibration   none, shift, affine, mlp, … instead of the one in use
    unk_penalty   added to the score of every word outside the vocabulary
    device        cpu, cuda, cuda:1, mps or auto; if not given, as the run was trained, where that is here
    trust         take the run's files as they are, though they differ from its manifest

    Raises NotSelfNormalized where skipping log Z would be wrong: the criterion does not pin it and no calibration makes up for it.
    """
    return scorer_of(open_run(folder, device, trust), normalized, calibration, unk_penalty)


def scorer_of(run: Run, normalized: bool = False, calibration: str | None = None, unk_penalty: float = 0.0) -> Scorer:
    kind = run.kind(calibration)
    if not normalized:
        refuse_unsafe(run, kind)
        warn_of_large_log_z(run, kind)
    return Scorer(load_model(run, calibration=kind), run.vocab, normalized, unk_penalty, run.tokenizer)


def refuse_unsafe(run: Run, kind: str) -> None:
    """Scoring without log Z needs a criterion that pins Z, or a calibration that makes up for it."""
    name, pinned = run.recipe.criterion.name, pins(run.recipe.criterion)
    if pinned == "no" and not (kind in CALIBRATIONS and CALIBRATIONS[kind].per_context):
        raise NotSelfNormalized(
            f"{run.folder} was trained with {name}, which does not pin log Z ({_in_use(kind)}): its scores without log Z "
            f"are off by an arbitrary amount per context. {_way_out(run)}, score with log Z (--normalized; export: --exact), "
            "or train with a criterion that self-normalizes, such as nce."
        )
    if pinned == "constant" and kind == "none":
        raise NotSelfNormalized(
            f"{run.folder} was trained with {name}, whose log Z settles at an unknown constant. Remove it first with: "
            f"selfnorm calibrate {run.folder} --with shift; or score with log Z (--normalized; export: --exact)."
        )


def _in_use(kind: str) -> str:
    return "no calibration in use" if kind == "none" else f"{kind} is in use, which removes a constant only"


def warn_of_large_log_z(run: Run, kind: str) -> None:
    """A criterion that pins log Z may have pinned it too loosely: a z-loss of 1e-4, or a training that has just begun."""
    best = best_line(read_history(run.file("history.jsonl")))
    if kind not in ("none", "shift") or best is None or pins(run.recipe.criterion) == "normalized":
        return
    mu_z, sigma_z = (0.0 if kind == "shift" else float(best.get("mu_z", 0.0))), float(best["sigma_z"])
    if abs(mu_z) > LARGE or sigma_z > LARGE:
        warnings.warn(
            f"{run.folder}: log Z is not near 0 (mu_z {mu_z:+.2f}, sigma_z {sigma_z:.2f} on the validation text), so scores without it "
            f"are wrong by as much. {_way_out(run)}, or score with log Z (--normalized).",
            FarFromNormalized,
            stacklevel=4,
        )


def _way_out(run: Run) -> str:
    stored = [kind for kind in reversed(CALIBRATIONS) if CALIBRATIONS[kind].per_context and has_calibration(run, kind)]
    if stored:
        for_good = f"selfnorm calibrate {run.folder} --with {stored[0]} --stored"
        return f"Use the calibration stored in it (--calibration {stored[0]}, or for good: {for_good})"
    return f"Calibrate it first (selfnorm calibrate {run.folder} --with mlp)"

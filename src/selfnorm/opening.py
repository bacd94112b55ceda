"""Open a run for use: with the text it was trained on, or as a scorer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from selfnorm.errors import UserError
from selfnorm.files import read_json
from selfnorm.names import pins
from selfnorm.results import read_history, text_of
from selfnorm.runs import Run, has_calibration, load_model, open_run
from selfnorm.score import Scorer
from selfnorm.terminal import say
from selfnorm.text import Corpus, open_corpus

STRAY = 0.5  # a mean or spread of log Z that nobody should score without


def open_with_text(folder: Path | str, from_: str = "") -> tuple[Run, Corpus]:
    """The run and its corpus; `from_` says where the text is now, if it moved."""
    run = open_run(folder)
    corpus = open_corpus(replace(run.recipe.data, folder=from_) if from_ else run.recipe.data)
    if text_of(run.folder) not in ("", corpus.fingerprint):
        raise UserError(
            f"The text is not the one {folder} was trained with. Was it changed? Name the original with --from."
        )
    if corpus.vocab.words != run.vocab.words:
        raise UserError(
            f"The text's vocabulary ({len(corpus.vocab):,} words) is not the one {folder} was trained with ({len(run.vocab):,} words). "
            "Was the text changed? Name the original with --from."
        )
    return run, corpus


def open_scorer(
    folder: Path | str, normalized: bool = False, calibration: str | None = None, unk_penalty: float = 0.0
) -> Scorer:
    """A Scorer for a run. Without log Z only where that is right: a model that cannot self-normalize is refused."""
    run = open_run(folder)
    kind = run.calibration if calibration is None else calibration
    if not normalized:
        refuse_unsafe(run, kind)
        warn_of_stray(run, kind)
    return Scorer(load_model(run, calibration=kind), run.vocab, normalized, unk_penalty)


def refuse_unsafe(run: Run, kind: str) -> None:
    """Scoring without log Z needs a criterion that pins Z, or a calibration that makes up for it."""
    name = run.recipe.criterion.name
    pinned = pins(run.recipe.criterion)
    if pinned == "no" and kind not in ("affine", "mlp"):
        raise UserError(
            f"{run.folder} was trained with {name}, which does not pin log Z: its scores without log Z are off by an arbitrary "
            f"amount per context. {_way_out(run)}, score with --normalized (export: --exact), "
            "or train with a criterion that self-normalizes, such as nce."
        )
    if pinned == "constant" and kind == "none":
        raise UserError(
            f"{run.folder} was trained with {name}, whose log Z settles at an unknown constant. Take it out first with: "
            f"selfnorm calibrate {run.folder} --with shift; or score with --normalized (export: --exact)."
        )


def warn_of_stray(run: Run, kind: str) -> None:
    """A criterion that pins log Z may have pinned it too loosely: a z-loss of 1e-4, or a training that has just begun."""
    history = read_history(run.file("history.jsonl"))
    if kind not in ("none", "shift") or not history or pins(run.recipe.criterion) == "normalized":
        return
    best = min(history, key=lambda line: float(line["perplexity"]))
    mu_z, sigma_z = (0.0 if kind == "shift" else float(best["mu_z"])), float(best["sigma_z"])
    if abs(mu_z) > STRAY or sigma_z > STRAY:
        say(
            f"{run.folder}: log Z is not near 0 (mu_z {mu_z:+.2f}, sigma_z {sigma_z:.2f} on the validation text), so scores without it "
            f"are wrong by as much. {_way_out(run)}, or score with --normalized."
        )


def _way_out(run: Run) -> str:
    stored = [kind for kind in ("mlp", "affine") if has_calibration(run, kind)]
    if stored:
        for_good = f"selfnorm calibrate {run.folder} --with {stored[0]} --stored"
        return f"Use the calibration stored in it (--calibration {stored[0]}, or for good: {for_good})"
    return f"Calibrate it first (selfnorm calibrate {run.folder} --with mlp)"


def remaining_sigma(run: Run, kind: str) -> float | None:
    """sigma_z left on the validation text after a calibration, if that is known."""
    path = run.file("calibration.json")
    facts = read_json(path).get(kind) if path.exists() else None
    try:
        return None if facts is None else float(facts["valid_after"]["sigma_z"])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path} does not say what {kind} left. Calibrate again.") from None

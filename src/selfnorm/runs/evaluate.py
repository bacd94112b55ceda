"""Measure a run on a split of its text, and give its per-token arrays."""

from __future__ import annotations

import errno
import logging
from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np

from selfnorm._util.console import progress
from selfnorm.data.corpus import Corpus
from selfnorm.data.sources.synthetic import whole
from selfnorm.evaluation.measure import measure, per_word
from selfnorm.evaluation.measurement import Measurement
from selfnorm.evaluation.theory import check_theorems
from selfnorm.runs.calibrations import fitted, signed
from selfnorm.runs.folder import Run, changing, refuse_replaced, stamp
from selfnorm.runs.history import trained_epochs
from selfnorm.runs.loading import load_model

log = logging.getLogger("selfnorm")


def measure_split(
    run: Run, corpus: Corpus, split: str, calibration: str | None = None, must_store: bool = False
) -> Measurement:
    """Measure the run's best model on a split and store the numbers in its folder.

    A folder that may not be written is only warned of, unless storing them is what was asked for (`must_store`).
    """
    kind = run.kind(calibration)
    weights, model = stamp(run, kind), load_model(run, calibration=kind)
    ids, line = corpus[split], signed(run, split, kind)
    theory = check_theorems(model, corpus.vocab, ids) if corpus.name == "synthetic" and whole(corpus.vocab) else None
    with progress(f"measure {split}", len(ids) - 1) as advance:
        measured = measure(model, ids, line, run.recipe.training.seed, advance, theory, run.vocab.words)
    measured = described(measured, run, split, kind)
    name = f"{split}.json" if kind == "none" else f"{split}.{kind}.json"
    try:
        with changing(run) as new:
            refuse_replaced(run, weights, kind)
            new.json(name, asdict(measured))
    except OSError as error:  # somebody else's run may be measured, though nothing can be stored in it
        if must_store or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        log.warning("Not stored: %s", error.strerror or error)
    return measured


def described(measured: Measurement, run: Run, split: str, kind: str) -> Measurement:
    """The measurement with what its signature was made from, as data."""
    return replace(measured, recipe=asdict(run.recipe), split=split, calibration=kind,
                   trained=trained_epochs(run.folder), fitted=fitted(run, kind))  # fmt: skip


def tokens_of_split(run: Run, corpus: Corpus, split: str, calibration: str | None = None) -> Mapping[str, np.ndarray]:
    """Arrays over the predicted words of a split, in the order of the text.

    word      the word itself
    m         its score, calibrated if a calibration is in use
    log_z     exact log Z of the calibrated scores: what is left after the calibration
    estimate  the calibration's estimate of log Z of the raw scores; 0 without one
    entropy   of the predicted distribution, nats
    """
    kind, ids = run.kind(calibration), corpus[split]
    with progress(f"measure {split}", (len(ids) - 1) * (1 + (kind != "none"))) as advance:
        words = per_word(load_model(run, calibration=kind), ids, advance=advance)
        raw = words if kind == "none" else per_word(load_model(run, calibration="none"), ids, False, advance)
    names = np.asarray(run.vocab.words, dtype=object)
    return {
        "word": names[np.asarray(ids[1:])],
        "m": words.log_z - words.nll,
        "log_z": words.log_z,
        "estimate": raw.log_z - words.log_z,
        "entropy": words.h,
    }

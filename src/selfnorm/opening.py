"""Open a run together with the text it was trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from selfnorm.errors import UserError
from selfnorm.runs import Run, open_run
from selfnorm.text import Corpus, open_corpus


def open_with_text(folder: Path, from_: str = "") -> tuple[Run, Corpus]:
    """The run and its corpus; `from_` says where the text is now, if it moved."""
    run = open_run(folder)
    data = replace(run.recipe.data, folder=from_) if from_ else run.recipe.data
    corpus = open_corpus(data)
    if corpus.vocab.words != run.vocab.words:
        raise UserError(
            f"The text's vocabulary ({len(corpus.vocab):,} words) is not the one {folder} was trained with ({len(run.vocab):,} words). "
            "Was the text changed? Name the original with --from."
        )
    return run, corpus

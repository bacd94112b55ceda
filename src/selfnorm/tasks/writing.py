"""Rescored lists as lines of text: 1-best, n-best or scores, in the format they came in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np

from selfnorm.errors import UserError
from selfnorm.tasks.nbest import NBest
from selfnorm.tasks.rescore import Table, Weights


def written(lists: Sequence[NBest], found: Sequence[Table], weights: Weights, what: str, form: str) -> Iterator[str]:
    """1best: name and words. scores: name, place, the model's score. nbest: the format's own lines, best first.

    What was read is kept: JSON gets "selfnorm" and "total" beside it, Moses a feature and a new total, SRILM the new LM
    score, NeMo the total for its one score; Kaldi's words_text has no place for a score.
    """
    if what == "nbest" and form == "srilm" and len(lists) > 1:
        raise UserError(
            "SRILM has one file per utterance, so lines of several could not be told apart. Rescore one file at a time, or use "
            "--print 1best or scores."
        )
    for nbest, table in zip(lists, found, strict=True):
        totals = weights.total(table.rows)
        order = np.argsort(-totals, kind="stable")
        if what == "1best":
            words = nbest.hypotheses[order[0]].words if len(order) else ()
            yield " ".join([nbest.name, *words])
        elif what == "scores":
            yield from (f"{nbest.name} {place} {row[3]:.4f}" for place, row in enumerate(table.rows))
        elif form == "jsonl":
            added = [{"selfnorm": float(table.rows[i, 3]), "total": float(totals[i])} for i in order]
            hyps = [{**nbest.hypotheses[i].raw, **more} for i, more in zip(order, added, strict=True)]
            yield json.dumps({**nbest.raw, "hyps": hyps}, ensure_ascii=False)
        else:
            yield from (_line(nbest, int(i), float(totals[i]), float(table.rows[i, 3]), form) for i in order)
            if form == "nemo":
                yield ""  # a blank line ends a list


def _line(nbest: NBest, place: int, total: float, lm: float, form: str) -> str:
    hypothesis = nbest.hypotheses[place]
    words = " ".join(hypothesis.words)
    if form == "moses":
        fields = [nbest.name, words, f"{hypothesis.raw[2]} selfnorm= {lm:.4f}", f"{total:.4f}", *hypothesis.raw[4:]]
        return " ||| ".join(fields)
    if form == "nemo":
        return f"{words}\t{total:.4f}"
    if form == "srilm":
        log10 = float(np.log(10))
        return f"{hypothesis.score / log10:.4f} {lm / log10:.4f} {len(hypothesis.words)} {words}"
    return f"{hypothesis.raw} {words}"

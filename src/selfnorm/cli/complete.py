"""selfnorm complete"""

from __future__ import annotations

import json
from pathlib import Path

from selfnorm._util.console import say, table
from selfnorm._util.errors import UserError
from selfnorm._util.files import write_json
from selfnorm.cli.options import Device, Json, Kind


def complete(
    run: Path, questions: Path, answers: Path | None = None, /, *, to: Path | None = None, calibration: Kind = None,
    ngram: Path | None = None, device: Device = "", json_: Json = False,
) -> None:  # fmt: skip
    """Fill the gap of each question with the choice that makes the sentence most probable, with and without log Z.

    Parameters
    ----------
    run
        Run folder made by selfnorm train.
    questions
        CSV: id,question,a),b),…; the gap is _____.
    answers
        CSV: id,answer. With it: acc_n, delta_acc, perplexity, sigma_z, McNemar's test. Without: the chosen words.
    to
        Also write the JSON here, for reports.
    ngram
        ARPA or KenLM file: answer with this n-gram model too, and test the difference (extra "ngram").
    """
    from selfnorm.runs.folder import open_run
    from selfnorm.tasks.challenge import choose, result
    from selfnorm.tasks.completion import read_questions

    if answers is None and (to is not None or ngram is not None):
        raise UserError("--to and --ngram compare with the answers: give ANSWERS too.")
    asked = read_questions(questions, answers)
    opened = open_run(run, device)
    kind = opened.kind(calibration)
    found = choose(opened, asked, kind)
    if answers is None:
        for question, n, u in zip(asked, found.normalized, found.unnormalized, strict=True):
            row = {"id": question.name, "normalized": question.choices[n], "unnormalized": question.choices[u]}
            print(json.dumps(row) if json_ else "\t".join(row.values()))
        return
    full = result(opened, asked, found, kind, ngram)
    if to is not None:
        write_json(to, full)
    if json_:
        print(json.dumps(full))
        return
    table(f"{run}: {len(asked)} questions", list(full["row"]), [[str(v) for v in full["row"].values()]])
    say(f"{len(full['disagree'])} questions are answered differently without log Z")

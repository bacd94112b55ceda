"""selfnorm complete"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from selfnorm._util.console import progress, say, table
from selfnorm._util.errors import UserError
from selfnorm._util.files import write_json
from selfnorm.cli.options import Device, Hf, Json, Kind, is_hf, load_either, output_file, require_stdout

if TYPE_CHECKING:
    from selfnorm.scoring.scorer import Scorer
    from selfnorm.tasks.completion import Answered, Question


def complete(
    run: Path, questions: Path, answers: Path | None = None, /, *, to: Path | None = None, calibration: Kind = None,
    ngram: Path | None = None, exact: Annotated[bool, Parameter(negative="")] = False, confidence: float = 0.999,
    device: Device = "", hf: Hf = None, json_: Json = False,
) -> None:  # fmt: skip
    """Fill the gap of each question with the choice that makes the sentence most probable, with and without log Z.

    Parameters
    ----------
    run
        Run folder made by selfnorm train; or hf:FOLDER, a language model that transformers loads.
    questions
        CSV: id,question,a),b),…; the gap is _____.
    answers
        CSV: id,answer. With it: acc_n, delta_acc, perplexity, sigma_z, McNemar's test. Without: the chosen words.
    to
        Also write the JSON here, for reports.
    ngram
        ARPA or KenLM file: answer with this n-gram model too, and test the difference (extra "ngram").
    exact
        Give only the choices of exact scores, with log Z computed only where it could change one: nearly as quick as skipping it.
    confidence
        Of --exact: how sure it must be that what was not computed changes nothing.
    """
    from selfnorm.runs.folder import open_run
    from selfnorm.tasks.challenge import choose, result
    from selfnorm.tasks.completion import read_questions

    if exact and (to is not None or ngram is not None):
        raise UserError("--exact gives the choices alone: leave --to and --ngram out.")
    if answers is None and (to is not None or ngram is not None):
        raise UserError("--to and --ngram compare with the answers: give ANSWERS too.")
    require_stdout()
    to = None if to is None else output_file(to, run, questions, answers, ngram)
    asked = read_questions(questions, answers)
    if is_hf(run):
        if to is not None or ngram is not None:
            raise UserError("--to and --ngram are for runs of ours: leave them out with hf:FOLDER.")
        _language_model(load_either(run, calibration, hf, device), asked, exact, confidence, json_)
        return
    opened = open_run(run, device)
    kind = opened.kind(calibration)
    if exact:
        _decided(opened.scorer(normalized=True, calibration=kind), asked, confidence, json_)
        return
    found = choose(opened, asked, kind)
    if answers is None:
        _print_choices(asked, found, json_)
        return
    full = result(opened, asked, found, kind, ngram)
    if to is not None:
        write_json(to, full)
    if json_:
        print(json.dumps(full))
        return
    table(f"{run}: {len(asked)} questions", list(full["row"]), [[str(v) for v in full["row"].values()]])
    say(f"{len(full['disagree'])} questions are answered differently without log Z")


def _print_choices(asked: list[Question], found: Answered, as_json: bool) -> None:
    for question, n, u in zip(asked, found.normalized, found.unnormalized, strict=True):
        row = {"id": question.name, "normalized": question.choices[n], "unnormalized": question.choices[u]}
        print(json.dumps(row) if as_json else "\t".join(row.values()))


def _language_model(scorer: Scorer, asked: list[Question], exact: bool, confidence: float, as_json: bool) -> None:
    """The choices of a model of transformers, or with the answers its numbers."""
    from selfnorm.tasks.completion import answer, summary

    if exact:
        _decided(scorer, asked, confidence, as_json)
        return
    with progress("complete", len(asked), "questions") as advance:
        found = answer(scorer, asked, advance)
    if asked[0].answer is None:
        _print_choices(asked, found, as_json)
        return
    numbers = summary(asked, found)
    if as_json:
        print(json.dumps(numbers))
        return
    names = ("acc_n", "acc_u", "delta_acc", "perplexity", "mu_z", "sigma_z", "mcnemar_p")
    table(f"{len(asked)} questions", list(names), [[f"{numbers[name]:.3f}" for name in names]])
    say(f"{len(numbers['disagree'])} questions are answered differently without log Z")


def _decided(scorer: Scorer, asked: list[Question], confidence: float, as_json: bool) -> None:
    from selfnorm.tasks.completion import decide

    chosen, report = decide(scorer, asked, confidence)
    for question, place in zip(asked, chosen, strict=True):
        row = {"id": question.name, "exact": question.choices[place]}
        print(json.dumps(row) if as_json else "\t".join(row.values()))
    say(report.sentence())
    if asked[0].answer is not None:
        right = sum(q.answer == place for q, place in zip(asked, chosen, strict=True))
        say(f"{right:,} of {len(asked):,} right ({right / len(asked):.2%})")

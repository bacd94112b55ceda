"""Commands that use a trained model: score, complete, export."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from selfnorm.cli.options import Json
from selfnorm.errors import UserError
from selfnorm.files import write_json
from selfnorm.terminal import say, table

if TYPE_CHECKING:
    from selfnorm.text import Unknown

Normalized = Annotated[bool, Parameter(negative="", help="Compute log Z exactly: slower, always right.")]
Kind = Annotated[Literal["none", "shift", "affine", "mlp"] | None, Parameter(help="Instead of the one in use.")]

MANY = 0.2  # of the words unknown: worth a warning


def register(app: App) -> None:
    for command in (score, complete, export):
        app.command(command)


def score(
    run: Path, text: Path | None = None, /, *, normalized: Normalized = False, per_word: Annotated[bool, Parameter(negative="")] = False,
    eos: bool = True, log10: Annotated[bool, Parameter(negative="")] = False, unk_penalty: float = 0.0,
    calibration: Kind = None, json_: Json = False,
) -> None:  # fmt: skip
    """Score sentences, one per line, from a file or stdin: natural-log scores out, in order, in constant memory.

    Words are what stands between blanks; cut them as the training text was (sotu, mscc: lower case, punctuation marks apart).

    Parameters
    ----------
    run
        Run folder made by selfnorm train.
    text
        File of sentences; without it, stdin.
    per_word
        One score per word (and <eos>) instead of their sum.
    eos
        Count the end of the sentence as a word.
    log10
        Base-10 logarithms, as n-gram tools use.
    unk_penalty
        Added to the score of every word outside the vocabulary.
    """
    from selfnorm.opening import open_scorer, remaining_sigma
    from selfnorm.runs import open_run
    from selfnorm.text import Unknown

    scorer, opened = open_scorer(run, normalized, calibration, unk_penalty), open_run(run)
    kind = opened.calibration if calibration is None else calibration
    left = remaining_sigma(opened, kind)
    if left is not None and not normalized:
        say(f"calibrated with {kind}: sigma_z {left:.3f} left on the validation text")
    base, unknown = math.log(10) if log10 else 1.0, Unknown(scorer.vocab)
    for scores in scorer.stream(_watched(_lines(text), unknown), eos):
        values = [float(s) / base for s in scores]
        if json_:
            print(json.dumps({"score": sum(values), "words": values}))
        else:
            print(" ".join(f"{v:.4f}" for v in values) if per_word else f"{sum(values):.4f}")
    warn_of(unknown)


def _watched(lines: Iterable[str], unknown: Unknown) -> Iterator[str]:
    for line in lines:
        unknown.add(line.split())
        yield line


def warn_of(unknown: Unknown) -> None:
    if unknown.share > MANY:
        say(
            f"{unknown.unknown:,} of {unknown.words:,} words are not in the vocabulary. Is the text cut as the training text was? "
            "(sotu and mscc: lower case, punctuation marks apart.)"
        )


def _lines(text: Path | None) -> Iterator[str]:
    if text is not None and not text.is_file():
        raise UserError(f"{text} does not exist or is not a file. Give a text file, or sentences on stdin.")
    handle: Any = sys.stdin.buffer if text is None else text.open("rb")
    with handle:
        for number, line in enumerate(handle, 1):
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\n")
            except UnicodeDecodeError:
                raise UserError(f"{text or 'stdin'} line {number} is not UTF-8. Convert it first with iconv.") from None


def complete(
    run: Path, questions: Path, answers: Path | None = None, /, *, to: Path | None = None, calibration: Kind = None,
    ngram: Path | None = None, json_: Json = False,
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
    from selfnorm.completing import choose, result
    from selfnorm.runs import open_run
    from selfnorm.tasks.completion import read_questions

    if answers is None and (to is not None or ngram is not None):
        raise UserError("--to and --ngram compare with the answers: give ANSWERS too.")
    asked = read_questions(questions, answers)
    made = open_run(run)
    kind = calibration or made.calibration
    found = choose(made, asked, kind)
    if answers is None:
        for question, n, u in zip(asked, found.normalized, found.unnormalized, strict=True):
            row = {"id": question.name, "normalized": question.choices[n], "unnormalized": question.choices[u]}
            print(json.dumps(row) if json_ else "\t".join(row.values()))
        return
    full = result(made, asked, found, kind, ngram)
    if to is not None:
        write_json(to, full)
    if json_:
        print(json.dumps(full))
        return
    table(f"{run}: {len(asked)} questions", list(full["row"]), [[str(v) for v in full["row"].values()]])
    say(f"{len(full['disagree'])} questions are answered differently without log Z")


def export(
    run: Path, /, *, to: Annotated[Literal["onnx"], Parameter(name="--to")] = "onnx",
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    exact: Annotated[bool, Parameter(negative="")] = False, int8: Annotated[bool, Parameter(negative="")] = False,
    calibration: Kind = None,
) -> None:  # fmt: skip
    """Export a model as an ONNX graph that scores candidate words only, for use without torch.

    Parameters
    ----------
    run
        Run folder made by selfnorm train.
    to
        The format.
    out
        File to write (default model.onnx in the run folder), with its vocabulary and a JSON beside it.
    exact
        Also give exact log Z (multiplies by the whole output table).
    int8
        Quantize the weights to eight bits.
    """
    from selfnorm.export import export as work
    from selfnorm.opening import open_scorer
    from selfnorm.runs import open_run, signed

    scorer, opened = open_scorer(run, exact, calibration), open_run(run)
    kind = opened.calibration if calibration is None else calibration
    path = out or run / ("model.int8.onnx" if int8 else "model.onnx")
    work(scorer.model, scorer.vocab, path, exact, int8, signed(opened, "", kind))
    say(f"{path}: {path.stat().st_size / 1e6:.1f} MB")

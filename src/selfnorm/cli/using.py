"""Commands that use a trained model: score, rescore, verdict, complete, export."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from selfnorm.cli.training import Json
from selfnorm.errors import UserError
from selfnorm.files import write_json
from selfnorm.results import command_line, today
from selfnorm.terminal import progress, say, table

Normalized = Annotated[bool, Parameter(negative="", help="Compute log Z exactly: slower, always right.")]
Format = Annotated[
    Literal["kaldi", "srilm", "nemo", "moses", "jsonl"], Parameter(name="--format", help="The lists' format.")
]
Kind = Annotated[Literal["none", "shift", "affine", "mlp"] | None, Parameter(help="Instead of the one in use.")]
SkipBad = Annotated[bool, Parameter(negative="", help="Leave out lines that cannot be read, and count them.")]


def register(app: App) -> None:
    for command in (score, rescore, verdict, complete, export):
        app.command(command)


def score(
    run: Path, text: Path | None = None, /, *, normalized: Normalized = False, per_word: Annotated[bool, Parameter(negative="")] = False,
    eos: bool = True, log10: Annotated[bool, Parameter(negative="")] = False, unk_penalty: float = 0.0, json_: Json = False,
) -> None:  # fmt: skip
    """Score sentences, one per line, from a file or stdin: natural-log scores out, in order, in constant memory.

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

    scorer = open_scorer(run, normalized, unk_penalty=unk_penalty)
    left = remaining_sigma(open_run(run))
    if left is not None and not normalized:
        say(f"calibrated with {open_run(run).calibration}: sigma_z {left:.3f} left on the validation text")
    base = math.log(10) if log10 else 1.0
    for scores in scorer.stream(_lines(text), eos):
        values = [float(s) / base for s in scores]
        if json_:
            print(json.dumps({"score": sum(values), "words": values}))
        else:
            print(" ".join(f"{v:.4f}" for v in values) if per_word else f"{sum(values):.4f}")


def _lines(text: Path | None) -> Iterator[str]:
    if text is not None and not text.is_file():
        raise UserError(f"{text} does not exist or is not a file. Give a text file, or sentences on stdin.")
    handle: Any = sys.stdin.buffer if text is None else text.open("rb")
    with handle:
        for number, line in enumerate(handle, 1):
            try:
                yield line.decode("utf-8").rstrip("\n")
            except UnicodeDecodeError:
                raise UserError(f"{text or 'stdin'} line {number} is not UTF-8. Convert it first with iconv.") from None


def _references(path: Path | None) -> dict[str, str] | None:
    """Lines "name words…"."""
    if path is None:
        return None
    from selfnorm.files import read_text

    pairs = (line.partition(" ") for line in read_text(path).splitlines() if line.strip())
    return {name: text for name, _, text in pairs}


def rescore(
    run: Path, lists: Path, /, *, format_: Format = "jsonl", lm_weight: float = 1.0, word_penalty: float = 0.0, old_lm_weight: float = 0.0,
    tune: Annotated[Path | None, Parameter(help="References (lines: name words) of a development set to find weights on.")] = None,
    test: Annotated[Path | None, Parameter(help="With --tune: other lists to choose from with the weights found.")] = None,
    references: Annotated[Path | None, Parameter(help="References of the lists that are written, to report their error rate.")] = None,
    metric: Literal["wer", "bleu"] = "wer", print_: Annotated[Literal["1best", "nbest", "scores"], Parameter(name="--print")] = "1best",
    normalized: Normalized = False, unk_penalty: float = 0.0, skip_bad: SkipBad = False, json_: Json = False,
) -> None:  # fmt: skip
    """Choose from n-best lists: score + lm-weight · LM + word-penalty · words. Shared prefixes are computed once.

    Parameters
    ----------
    run
        Run folder made by selfnorm train.
    lists
        File or folder of n-best lists.
    lm_weight
        Weight of the model's natural-log score.
    word_penalty
        Added per word.
    old_lm_weight
        Weight of the language model score already in the lists; 0 removes it where the format keeps it apart.
    metric
        What --tune improves: word error rate or BLEU.
    print_
        1best: name and words. nbest: all, best first. scores: the model's score of every hypothesis.
    unk_penalty
        Added to the score of every word outside the vocabulary.
    """
    from selfnorm.opening import open_scorer
    from selfnorm.tasks import rescore as work
    from selfnorm.tasks.lists import read_lists
    from selfnorm.tasks.writing import written

    scorer = open_scorer(run, normalized, unk_penalty=unk_penalty)
    read, skipped = read_lists(lists, format_, skip_bad)
    weights, facts = (
        work.Weights(lm_weight, word_penalty, old_lm_weight),
        dict[str, Any](skipped=len(skipped)),
    )
    with progress("rescore", len(read), "lists") as advance:
        found = work.tables(scorer, read, advance=advance)
    if tune is not None:
        weights, value = work.tuned(read, found, _references(tune) or {}, metric, old_lm_weight != 0)
        facts |= {"weights": weights.__dict__, f"{metric}_development": value}
        if test is not None:
            read, more = read_lists(test, format_, skip_bad)
            facts["skipped"] += len(more)
            found = work.tables(scorer, read)
    picked = work.choose(found, weights)
    known = _references(references if references is not None else (tune if test is None else None))
    if known is not None:
        facts[metric] = work.quality(read, found, weights, known, metric)
        facts[f"{metric}_first_score_alone"] = work.quality(read, found, work.Weights(0.0), known, metric)
    if skipped:
        say(f"skipped {facts['skipped']} bad lines; the first: {skipped[0]}")
    if json_:
        print(
            json.dumps(
                {
                    **facts,
                    "picked": {
                        n.name: " ".join(n.hypotheses[i].words) if i >= 0 else ""
                        for n, i in zip(read, picked, strict=True)
                    },
                }
            )
        )
        return
    for line in written(read, found, weights, print_, format_):
        print(line)
    say(
        "  ".join(
            f"{key} {value:.4f}" if isinstance(value, float) else f"{key} {value}" for key, value in facts.items()
        )
    )


def verdict(
    run: Path, lists: Path, /, *, format_: Format = "jsonl", lm_weight: float = 1.0, word_penalty: float = 0.0, old_lm_weight: float = 0.0,
    references: Path | None = None, allowed: float = 0.02, calibration: Kind = None,
    skip_bad: SkipBad = False, json_: Json = False,
) -> None:  # fmt: skip
    """Say whether skipping log Z is safe on your lists: how often the 1-best changes, by how much, and what it saves.

    Parameters
    ----------
    run
        Run folder made by selfnorm train.
    lists
        File or folder of n-best lists.
    references
        Lines "name words", to report the change in word error rate.
    allowed
        The share of changed 1-bests you can live with.
    calibration
        Judge with this calibration instead of the one in use.
    """
    from selfnorm.opening import open_scorer
    from selfnorm.tasks.lists import read_lists
    from selfnorm.tasks.rescore import Weights
    from selfnorm.tasks.verdict import judge

    scorer = open_scorer(run, normalized=True, calibration=calibration)
    read, skipped = read_lists(lists, format_, skip_bad)
    found = judge(scorer, read, Weights(lm_weight, word_penalty, old_lm_weight), _references(references), allowed)
    if json_:
        print(json.dumps({**found.table(), "skipped": len(skipped)}))
        return
    times = found.seconds_exact / found.seconds_unnormalized
    rows = [
        ["lists with a choice", str(found.lists)],
        ["1-best changes", f"{found.flips} ({found.flip_rate:.2%}; 95 %: {found.flip_interval[0]:.2%} to {found.flip_interval[1]:.2%})"],
        ["spread of Σ log Z within a list", f"{found.spread:.4f}"],
        ["gap between best and second", f"{found.gap:.4f}"],
        ["seconds exact / unnormalized", f"{found.seconds_exact:.2f} / {found.seconds_unnormalized:.2f} ({times:.1f} x)"],
    ]  # fmt: skip
    if found.wer_exact is not None and found.wer_unnormalized is not None:
        rows.append(["WER exact / unnormalized", f"{found.wer_exact:.2%} / {found.wer_unnormalized:.2%}"])
    table(f"{run} on {lists}", ["", "value"], rows)
    print(found.sentence)


def complete(
    run: Path, questions: Path, answers: Path | None = None, /, *, to: Path | None = None, calibration: Kind = None,
    json_: Json = False,
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
    """
    from selfnorm.opening import open_scorer
    from selfnorm.results import signature
    from selfnorm.runs import open_run
    from selfnorm.tasks.completion import answer, read_questions, summary
    from selfnorm.text.encode import tokenizer_of

    asked = read_questions(questions, answers)
    made = open_run(run)
    scorer = open_scorer(run, normalized=True, calibration=calibration)
    with progress("complete", len(asked), "questions") as advance:
        found = answer(scorer, asked, tokenizer_of(made.recipe.data.name), advance)
    if answers is None:
        for question, n, u in zip(asked, found.normalized, found.unnormalized, strict=True):
            print(question.name, question.choices[n], question.choices[u], sep="\t")
        return
    result = summary(asked, found)
    line = signature(made.recipe, "mscc", calibration or made.calibration)
    row = {
        "model": made.recipe.criterion.name, "d": made.recipe.model.d, "calibration": calibration or made.calibration,
        **{key: f"{result[key]:.2f}" for key in ("acc_n", "delta_acc", "perplexity", "sigma_z")},
        "p (McNemar)": f"{result['mcnemar_p']:.3f}",
    }  # fmt: skip
    full = {
        "kind_of_result": "Sentence completion",
        "row": row,
        "signature": line,
        "command": command_line(),
        "date": today(),
        **result,
    }
    if to is not None:
        write_json(to, full)
    if json_:
        print(json.dumps(full))
        return
    table(f"{run}: {len(asked)} questions", list(row), [[str(v) for v in row.values()]])
    say(f"{len(result['disagree'])} questions are answered differently without log Z")


def export(
    run: Path, /, *, to: Annotated[Literal["onnx"], Parameter(name="--to")] = "onnx",
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    exact: Annotated[bool, Parameter(negative="")] = False, int8: Annotated[bool, Parameter(negative="")] = False,
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

    scorer = open_scorer(run, normalized=exact)
    path = out or run / ("model.int8.onnx" if int8 else "model.onnx")
    work(scorer.model, scorer.vocab, path, exact, int8)
    say(f"{path}: {path.stat().st_size / 1e6:.1f} MB")

"""selfnorm score"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from selfnorm._util.columns import ending_of, write_columns
from selfnorm._util.console import say
from selfnorm._util.errors import UserError
from selfnorm.cli.cluster import Jobs, On, To, run_settings, score_on_ray
from selfnorm.cli.options import (
    Device,
    Hf,
    Json,
    Kind,
    Normalized,
    Tokenized,
    is_hf,
    output_file,
    refuse_hf,
    require_stdout,
    warn_of_unknown,
)

if TYPE_CHECKING:
    from selfnorm.scoring.scorer import Scorer


def score(
    run: Path, text: Path | None = None, /, *, normalized: Normalized = False, per_word: Annotated[bool, Parameter(negative="")] = False,
    eos: bool = True, log10: Annotated[bool, Parameter(negative="")] = False, unk_penalty: float = 0.0,
    calibration: Kind = None, table: Path | None = None, tokenized: Tokenized = False, device: Device = "", hf: Hf = None,
    json_: Json = False, on: On = "here", to: To = None, jobs: Jobs = 0, shard: int = 20_480,
) -> None:  # fmt: skip
    """Score sentences, one per line, from a file or stdin: natural-log scores out, in order, in constant memory.

    Text is tokenized as the training text was. With --tokenized, words are separated by spaces and taken as they are.

    Parameters
    ----------
    run
        Run folder made by selfnorm train; or hf:FOLDER, a language model that transformers loads: its scores are exact unless
        --calibration names a folder made by selfnorm audit, and (T, V) logits are never held.
    text
        File of sentences, may be .gz; without it, or with -, stdin.
    per_word
        One score per word (and <eos>) instead of their sum.
    eos
        Count the end of the sentence as a word.
    log10
        Base-10 logarithms, as n-gram tools use.
    table
        Also write every word with its numbers (sentence, word, m, exact log_z, entropy): FILE.csv, .jsonl or .parquet (extra
        parquet). Needs a text file, not stdin.
    unk_penalty
        Added to the score of every word outside the vocabulary.
    shard
        With --on ray: lines of a shard.
    """
    from selfnorm.data.vocab import Unknown
    from selfnorm.runs.calibrations import remaining_sigma
    from selfnorm.runs.folder import open_run
    from selfnorm.tasks.corpora import counted, score_line

    from_hf = is_hf(run)
    refuse_hf(run, "--device", device)
    text = None if text == Path("-") else text
    opened = None if from_hf else open_run(run, device)
    if text is not None and not text.is_file():
        raise UserError(f"{text} does not exist or is not a file. Give a text file, or sentences on stdin.")
    if on == "ray":
        if table is not None:
            raise UserError("--table is not written by --on ray: leave it out.")
        settings = {"eos": eos, "per_word": per_word, "log10": log10, "json": json_, "tokenized": tokenized}
        refuse_hf(run, "--on ray")
        settings |= run_settings(open_run(run, device), normalized, calibration, unk_penalty)
        score_on_ray("score", settings, text, to, jobs, shard)
        return
    if table is not None and text is None:
        raise UserError("--table reads the text twice: give a file instead of stdin.")
    place, ending = (None, "") if table is None else (output_file(table, run, text), ending_of(table))
    require_stdout()
    if opened is None:
        from selfnorm.hf.scorer import open_scorer

        if table is not None or unk_penalty:
            raise UserError(
                "--table and --unk-penalty are for runs of ours; selfnorm audit shows log Z of a language model."
            )

        scorer: Scorer = open_scorer(str(run), normalized or calibration is None, calibration, hf or [])
    else:
        scorer, kind = opened.scorer(normalized, calibration, unk_penalty), opened.kind(calibration)
        left = remaining_sigma(opened, kind)
        if left is not None and not normalized:
            say(f"calibrated with {kind}: sigma_z {left:.2g} left on the validation text")
    if place is not None:
        words = scorer.tokens((line.split() if tokenized else line for line in _lines(text)), eos)
        write_columns(place, words, ending)
    unknown, split = Unknown(scorer.vocab), _whole if from_hf else str.split if tokenized else scorer.tokenize
    for scores in scorer.stream(counted((split(line) for line in _lines(text)), unknown), eos):
        print(score_line(scores, per_word, log10, json_))
    warn_of_unknown(unknown)


def _whole(line: str) -> list[str]:
    """A language model has its own tokens: the line as it is."""
    return [line]


def _lines(text: Path | None) -> Iterator[str]:
    from selfnorm.tasks.corpora import text_of
    from selfnorm.tasks.nbest.base import STDIN, opened

    with opened(text or STDIN) as handle:
        for number, line in enumerate(handle, 1):
            yield text_of(line, number, str(text or "stdin"))

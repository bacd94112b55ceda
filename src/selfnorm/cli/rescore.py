"""selfnorm rescore"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from selfnorm._util.console import progress, say
from selfnorm._util.errors import UserError
from selfnorm._util.files import atomic
from selfnorm.cli.cluster import Jobs, On, run_settings, score_on_ray
from selfnorm.cli.options import (
    Device,
    Format,
    Hf,
    Json,
    Kind,
    Normalized,
    SkipBad,
    Tokenized,
    is_hf,
    output_file,
    refuse_hf,
    require_stdout,
    warn_of_unknown,
)

if TYPE_CHECKING:
    from selfnorm.runs.folder import Run
    from selfnorm.scoring.scorer import Scorer
    from selfnorm.tasks.nbest.base import NBest, Reading
    from selfnorm.tasks.nbest.lists import Writer
    from selfnorm.tasks.rescorer import Rescorer
    from selfnorm.tasks.rescoring import Table
    from selfnorm.tasks.session import Development, Session
    from selfnorm.tasks.wer import References


def rescore(
    run: Path, lists: Path, /, *, format_: Format = "jsonl", lm_weight: float = 1.0, word_penalty: float = 0.0, old_lm_weight: float = 0.0,
    tune: Annotated[Path | None, Parameter(help="References (lines: name words) of a development set to find weights on.")] = None,
    test: Annotated[Path | None, Parameter(help="With --tune: other lists to choose from with the weights found.")] = None,
    references: Annotated[Path | None, Parameter(help="References of the lists that are written, to report their error rate.")] = None,
    ignore_case: Annotated[bool, Parameter(negative="")] = False, map_: Annotated[Path | None, Parameter(name="--map")] = None,
    ngram: Annotated[Path | None, Parameter(help="Also use this ARPA or KenLM model, log-linearly.")] = None, ngram_weight: float = 0.5,
    metric: Literal["wer", "bleu"] = "wer",
    print_: Annotated[Literal["1best", "nbest", "scores", "confidence"], Parameter(name="--print")] = "1best",
    temperature: float | None = None, to: Path | None = None,
    normalized: Normalized = False, unk_penalty: float = 0.0, calibration: Kind = None, skip_bad: SkipBad = False,
    beam_size: int | None = None, paths: int = 100, workers: int = 1,
    exact: Literal["none", "1best", "nbest", "all"] | None = None, confidence: float = 0.999, tokenized: Tokenized = False,
    device: Device = "", on: On = "here", jobs: Jobs = 0, shard: int = 2000, hf: Hf = None, json_: Json = False,
) -> None:  # fmt: skip
    """Choose from n-best lists: score + lm-weight · LM + word-penalty · words. Shared prefixes are computed once.

    Lists are read, rescored and written one after another, in constant memory. By default log Z is computed only where it could
    change the best hypothesis, so that the result is the one of exact scores.

    Parameters
    ----------
    run
        Run folder made by selfnorm train; or hf:FOLDER, a language model that transformers loads. Then --calibration names a folder
        made by selfnorm audit; without it log Z is computed everywhere.
    lists
        File or folder of n-best lists; files may be .gz; - is stdin.
    lm_weight
        Weight of the model's natural-log score.
    word_penalty
        Added per word.
    old_lm_weight
        Weight of the language model score already in the lists; 0 removes it where the format keeps it apart.
    ignore_case
        Compare with references in lower case.
    map_
        Lines "word replacement": words that count as the same in error rates, such as hesitations; no replacement leaves the word out.
    ngram_weight
        Share of the n-gram model in the language model score; 1 is the n-gram alone.
    metric
        What --tune improves: word error rate or BLEU.
    print_
        1best: name and words. nbest: all, best first. scores: the model's score of every hypothesis. confidence: name, the posterior
        of the best hypothesis and of each of its words.
    temperature
        Of --print confidence: totals are divided by it. --tune finds it.
    to
        Write here instead of to stdout: the whole file or nothing. With --on ray: a folder for the parts and the manifest.
    beam_size
        Hypotheses per list, for NeMo's files, which do not say where a list ends.
    paths
        Of a lattice: so many best paths become the list.
    workers
        Processes that share the work; the output is the same.
    exact
        1best: compute log Z only where it could change the best hypothesis. nbest: the same for the whole order. none: skip log Z.
        all: compute it everywhere (also --normalized). The default is 1best; all where the scores of every hypothesis are
        written (--print nbest and scores), because the others leave estimates in them.
    confidence
        Of --exact: how sure it must be that what was not computed changes nothing.
    unk_penalty
        Added to the score of every word outside the vocabulary.
    shard
        With --on ray: lists of a shard, at least.
    """
    from selfnorm.runs.folder import open_run
    from selfnorm.tasks.nbest.base import Reading
    from selfnorm.tasks.nbest.lists import Writer, stream_lists
    from selfnorm.tasks.ngram import Ngram
    from selfnorm.tasks.rescorer import Rescorer
    from selfnorm.tasks.rescoring import Mix, Weights
    from selfnorm.tasks.session import Session
    from selfnorm.tasks.wer import References, read_mapping, read_references

    _check(lists, test, tune, ngram_weight, temperature, workers, normalized, exact)
    scores_written = print_ in ("nbest", "scores") and not json_
    mode = exact or ("all" if normalized or scores_written else "1best")
    if to is not None and on == "here":
        to = output_file(to, run, lists, test, tune, references, map_, ngram)
    if to is None:
        require_stdout()
    weights = Weights(lm_weight, word_penalty, old_lm_weight)
    writer, facts = Writer(print_, format_, weights), dict[str, Any]()
    if on == "ray":
        refuse_hf(run, "--on ray")
        if format_ != "jsonl" or skip_bad or json_ or print_ == "confidence":
            raise UserError("--on ray takes lists in jsonl, without --skip-bad, --json and --print confidence.")
        if any(x is not None for x in (tune, test, references, ngram)):
            raise UserError(
                "--on ray takes weights, not references or n-grams: find weights here first, with --tune on fewer lists."
            )
        settings = {
            "lm_weight": lm_weight,
            "word_penalty": word_penalty,
            "old_lm_weight": old_lm_weight,
            "confidence": confidence,
        }
        texts = {"print": print_, "tokenized": tokenized, "exact": mode}
        kept = run_settings(open_run(run, device), mode != "none", calibration, unk_penalty)
        score_on_ray("rescore", settings | texts | kept, lists, to, jobs, shard)
        return
    if is_hf(run):
        refuse_hf(run, "--device", device)
        if workers > 1 or unk_penalty:
            raise UserError("--workers and --unk-penalty are for runs of ours: leave them out with hf:FOLDER.")
        mode = "all" if calibration in (None, "none") and mode != "none" else mode
        scorer = _language_model(str(run), calibration, mode, hf or [])
    else:
        opened = open_run(run, device)
        scorer = opened.scorer(mode != "none", calibration, unk_penalty).with_log_z(mode == "all")
        say(_calibrated(opened, calibration, mode))
    if scores_written and mode in ("1best", "nbest"):
        say(
            f"--exact {mode}: scores are exact where the order needed it; elsewhere the mean of log Z stands for what was not computed"
        )
    mix = Mix(None if ngram is None else Ngram(ngram), ngram_weight)
    reading = Reading(skip_bad, beam_size, paths)
    compare = References(None, ignore_case, {} if map_ is None else read_mapping(map_))
    if tune is not None:
        lm, known = Rescorer(scorer, exact="none" if mode == "none" else "all", mix=mix), read_references(tune)
        development = stream_lists(lists, format_, reading)
        found = _tuned(lm, development, compare.using(known), metric, old_lm_weight != 0, tokenized)
        writer.weights = weights = found.weights
        temperature, facts = temperature or found.temperature, found.facts()
        lists, references = (lists, references or tune) if test is None else (test, references)
    rescorer = Rescorer(scorer, weights.lm, weights.word, weights.old_lm, mode, confidence, mix)
    compare = compare.using(None if references is None else read_references(references))
    session = Session(compare, metric, scorer.vocab, str.split if tokenized else scorer.tokenize, temperature or 1.0)
    session.counting = references is not None or _can_count(metric)
    picked: dict[str, str] = {}
    with _output(to) as write, progress("rescore", None, "lists") as advance:
        for nbest, table in rescorer.stream(stream_lists(lists, format_, reading), tokenized, workers):
            picked[nbest.name if json_ else ""] = session.add(nbest, table, weights)
            advance(1)
            for line in () if json_ else _lines(print_, session, writer, nbest, table):
                write(line)
        facts |= session.facts()
        if json_:
            write(json.dumps({**facts, **rescorer.report.facts(), "skipped": len(reading.skipped), "picked": picked}))
    _report(rescorer, session, reading, facts)


def _language_model(name: str, calibration: str | None, exact: str, settings: list[str]) -> Scorer:
    """A model of transformers; without a calibration its log Z is computed everywhere."""
    from selfnorm.hf.scorer import open_scorer

    scorer = open_scorer(name, exact != "none", calibration, settings).with_log_z(exact == "all")
    say(f"a sentence is read as: {scorer.words.shown('this is one i know')}")
    return scorer


def _lines(what: str, session: Session, writer: Writer, nbest: NBest, table: Table) -> Iterator[str]:
    return session.confidence(nbest, table, writer.weights) if what == "confidence" else writer.lines(nbest, table)


def _tuned(
    lm: Rescorer, lists: Iterator[NBest], references: References, metric: str, old_lm: bool, tokenized: bool
) -> Development:
    """Weights found on a development set, which is held in memory."""
    from selfnorm.tasks.session import develop

    pairs = list(lm.stream(lists, tokenized))
    found = develop([nbest for nbest, _ in pairs], [table for _, table in pairs], references, metric, old_lm)
    for sentence in found.remarks():
        say(sentence)
    return found


@contextmanager
def _output(to: Path | None) -> Iterator[Callable[[str], None]]:
    """Lines to stdout, or to a file that appears when all are written."""
    if to is None:
        yield lambda line: print(line)
        return
    with atomic(to) as temporary, temporary.open("w", encoding="utf-8") as handle:
        yield lambda line: print(line, file=handle)


def _can_count(metric: str) -> bool:
    """Lists may bring references that nobody asked for: without the package for error rates they are left alone."""
    return find_spec("jiwer" if metric == "wer" else "sacrebleu") is not None


def _calibrated(run: Run, calibration: str | None, exact: str) -> str:
    from selfnorm.runs.calibrations import remaining_sigma

    kind = run.kind(calibration)
    left = remaining_sigma(run, kind)
    known = f", sigma_z {left:.2g} left on the validation text" if left is not None else ""
    how = {"none": "log Z is skipped", "all": "log Z is computed everywhere"}.get(
        exact, f"exact {exact}: log Z where it matters"
    )
    return f"calibration: {kind}{known}; {how}"


def _report(rescorer: Rescorer, session: Session, reading: Reading, facts: dict[str, Any]) -> None:
    warn_of_unknown(session.unknown)
    if rescorer.report.contexts:
        say(rescorer.report.sentence())
    for sentence in session.remarks():
        say(sentence)
    if reading.skipped:
        say(f"skipped {len(reading.skipped)} bad lines; the first: {reading.skipped[0]}")
    shown = {key: value for key, value in facts.items() if key != "reliability"}
    if shown:
        say("  ".join(f"{key} {_shown(value)}" for key, value in shown.items()))


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{value[0]:.4f} to {value[1]:.4f}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {round(one, 6) + 0.0:.4g}" for key, one in value.items())
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _check(
    lists: Path, test: Path | None, tune: Path | None, ngram_weight: float, temperature: float | None, workers: int,
    normalized: bool, exact: str | None,
) -> None:  # fmt: skip
    if test is not None and tune is None:
        raise UserError("--test goes with --tune: weights are found on LISTS and used on --test.")
    if tune is not None and test is None and str(lists) == "-":
        raise UserError(
            "--tune reads the lists twice: give a file instead of stdin, or other lists to choose from (--test)."
        )
    if not 0 <= ngram_weight <= 1:
        raise UserError(f"--ngram-weight {ngram_weight}: a share from 0 to 1 was expected.")
    if temperature is not None and not 0 < temperature < float("inf"):
        raise UserError(f"--temperature {temperature}: a number above 0 was expected.")
    if workers < 1:
        raise UserError(f"--workers {workers}: a number of processes of at least 1 was expected.")
    if normalized and exact not in (None, "all"):
        raise UserError(f"--normalized computes log Z everywhere: leave --exact {exact} out.")

"""selfnorm rescore"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from selfnorm._util.console import progress, say
from selfnorm._util.errors import UserError
from selfnorm.cli.cluster import Jobs, On, To, run_settings, score_on_ray
from selfnorm.cli.options import Device, Format, Json, Kind, Normalized, SkipBad, Tokenized, warn_of_unknown


def rescore(
    run: Path, lists: Path, /, *, format_: Format = "jsonl", lm_weight: float = 1.0, word_penalty: float = 0.0, old_lm_weight: float = 0.0,
    tune: Annotated[Path | None, Parameter(help="References (lines: name words) of a development set to find weights on.")] = None,
    test: Annotated[Path | None, Parameter(help="With --tune: other lists to choose from with the weights found.")] = None,
    references: Annotated[Path | None, Parameter(help="References of the lists that are written, to report their error rate.")] = None,
    ngram: Annotated[Path | None, Parameter(help="Also use this ARPA or KenLM model, log-linearly.")] = None, ngram_weight: float = 0.5,
    metric: Literal["wer", "bleu"] = "wer", print_: Annotated[Literal["1best", "nbest", "scores"], Parameter(name="--print")] = "1best",
    normalized: Normalized = False, unk_penalty: float = 0.0, calibration: Kind = None, skip_bad: SkipBad = False,
    exact: Literal["none", "1best", "nbest"] = "none", confidence: float = 0.999, tokenized: Tokenized = False, device: Device = "",
    json_: Json = False, on: On = "here", to: To = None, jobs: Jobs = 0, shard: int = 2000,
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
    ngram_weight
        Share of the n-gram model in the language model score; 1 is the n-gram alone.
    metric
        What --tune improves: word error rate or BLEU.
    print_
        1best: name and words. nbest: all, best first. scores: the model's score of every hypothesis.
    exact
        1best: compute log Z only where it could change the best hypothesis, so that it is the one exact scores would choose.
        nbest: the same for the whole order. none: skip log Z (--normalized computes it everywhere).
    confidence
        Of --exact: how sure it must be that what was not computed changes nothing.
    unk_penalty
        Added to the score of every word outside the vocabulary.
    shard
        With --on ray: lists of a shard, at least.
    """
    from selfnorm.runs.folder import open_run
    from selfnorm.runs.opening import load
    from selfnorm.tasks import rescoring as work
    from selfnorm.tasks.exact import exact_tables
    from selfnorm.tasks.nbest.base import unknown_of
    from selfnorm.tasks.nbest.lists import read_lists, read_references, written
    from selfnorm.tasks.ngram import Ngram

    if test is not None and tune is None:
        raise UserError("--test goes with --tune: weights are found on LISTS and used on --test.")
    if not 0 <= ngram_weight <= 1:
        raise UserError(f"--ngram-weight {ngram_weight}: a share from 0 to 1 was expected.")
    if exact != "none" and (normalized or ngram is not None):
        raise UserError("--exact decides where log Z is computed: leave --normalized and --ngram out.")
    if on == "ray":
        if format_ != "jsonl" or skip_bad or json_ or exact != "none":
            raise UserError("--on ray takes lists in jsonl, without --skip-bad, --json and --exact.")
        if any(x is not None for x in (tune, test, references, ngram)):
            raise UserError(
                "--on ray takes weights, not references or n-grams: find weights here first, with --tune on fewer lists."
            )
        weights = work.Weights(lm_weight, word_penalty, old_lm_weight)
        settings: dict[str, Any] = {
            "lm_weight": weights.lm,
            "word_penalty": weights.word,
            "old_lm_weight": weights.old_lm,
        }
        settings |= {"print": print_, "tokenized": tokenized}
        settings |= run_settings(open_run(run, device), normalized, calibration, unk_penalty)
        score_on_ray("rescore", settings, lists, to, jobs, shard)
        return
    scorer, other = load(run, normalized, calibration, unk_penalty, device), None if ngram is None else Ngram(ngram)
    read, skipped = read_lists(lists, format_, skip_bad)
    warn_of_unknown(unknown_of(scorer.vocab, read, str.split if tokenized else scorer.tokenize))
    weights, facts = work.Weights(lm_weight, word_penalty, old_lm_weight), dict[str, Any]()
    needed = exact == "none" or tune is not None  # otherwise --exact scores them itself
    with progress("rescore", len(read), "lists") as advance:
        found = work.tables(
            scorer, read if needed else [], advance=advance, ngram=other, ngram_weight=ngram_weight, tokenized=tokenized
        )
    if tune is not None:
        weights, value = work.tuned(read, found, read_references(tune), metric, old_lm_weight != 0)
        facts |= {"weights": weights.__dict__, f"{metric}_development": value}
        if test is not None:
            read, more = read_lists(test, format_, skip_bad)
            skipped += more
            found = work.tables(scorer, read, ngram=other, ngram_weight=ngram_weight, tokenized=tokenized)
    file = references if references is not None else (tune if test is None else None)
    if exact != "none":
        found, report = exact_tables(scorer, read, weights, exact, confidence, tokenized)
        say(report.sentence())
    known = work.own_references(read) if file is None else read_references(file)
    if known is not None:
        facts[metric] = work.quality(read, found, weights, known, metric)
        facts[f"{metric}_without_lm"] = work.quality(read, found, work.Weights(0.0), known, metric)
    if skipped:
        say(f"skipped {len(skipped)} bad lines; the first: {skipped[0]}")
    if json_:
        chosen = zip(read, work.choose(found, weights), strict=True)
        picked = {n.name: " ".join(n.hypotheses[i].words) if i >= 0 else "" for n, i in chosen}
        print(json.dumps({**facts, "skipped": len(skipped), "picked": picked}))
        return
    for line in written(read, found, weights, print_, format_):
        print(line)
    if facts:
        say(
            "  ".join(
                f"{key} {value:.4f}" if isinstance(value, float) else f"{key} {value}" for key, value in facts.items()
            )
        )

"""Commands about lists and n-grams: rescore, verdict, mix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from selfnorm.cli.options import Json
from selfnorm.cli.using import Kind, Normalized, warn_of
from selfnorm.errors import UserError
from selfnorm.files import read_text, write_json
from selfnorm.results import command_line, today
from selfnorm.terminal import progress, say, table

Format = Annotated[
    Literal["kaldi", "srilm", "nemo", "moses", "jsonl"], Parameter(name="--format", help="The lists' format.")
]
SkipBad = Annotated[bool, Parameter(negative="", help="Leave out lines that cannot be read, and count them.")]


def register(app: App) -> None:
    for command in (rescore, verdict, mix):
        app.command(command)


def _references(path: Path | None) -> dict[str, str] | None:
    """Lines "name words…"."""
    if path is None:
        return None
    lines = (line.split() for line in read_text(path).splitlines() if line.strip())
    return {name: " ".join(words) for name, *words in lines}


def rescore(
    run: Path, lists: Path, /, *, format_: Format = "jsonl", lm_weight: float = 1.0, word_penalty: float = 0.0, old_lm_weight: float = 0.0,
    tune: Annotated[Path | None, Parameter(help="References (lines: name words) of a development set to find weights on.")] = None,
    test: Annotated[Path | None, Parameter(help="With --tune: other lists to choose from with the weights found.")] = None,
    references: Annotated[Path | None, Parameter(help="References of the lists that are written, to report their error rate.")] = None,
    ngram: Annotated[Path | None, Parameter(help="Also use this ARPA or KenLM model, log-linearly.")] = None, ngram_weight: float = 0.5,
    metric: Literal["wer", "bleu"] = "wer", print_: Annotated[Literal["1best", "nbest", "scores"], Parameter(name="--print")] = "1best",
    normalized: Normalized = False, unk_penalty: float = 0.0, calibration: Kind = None, skip_bad: SkipBad = False, json_: Json = False,
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
    unk_penalty
        Added to the score of every word outside the vocabulary.
    """
    from selfnorm.opening import open_scorer
    from selfnorm.tasks import rescore as work
    from selfnorm.tasks.lists import read_lists
    from selfnorm.tasks.nbest import unknown_of
    from selfnorm.tasks.ngram import Ngram
    from selfnorm.tasks.writing import written

    if test is not None and tune is None:
        raise UserError("--test goes with --tune: weights are found on LISTS and used on --test.")
    if not 0 <= ngram_weight <= 1:
        raise UserError(f"--ngram-weight {ngram_weight}: a share from 0 to 1 was expected.")
    scorer, other = open_scorer(run, normalized, calibration, unk_penalty), None if ngram is None else Ngram(ngram)
    read, skipped = read_lists(lists, format_, skip_bad)
    warn_of(unknown_of(scorer.vocab, read))
    weights, facts = work.Weights(lm_weight, word_penalty, old_lm_weight), dict[str, Any]()
    with progress("rescore", len(read), "lists") as advance:
        found = work.tables(scorer, read, advance=advance, ngram=other, ngram_weight=ngram_weight)
    if tune is not None:
        weights, value = work.tuned(read, found, _references(tune) or {}, metric, old_lm_weight != 0)
        facts |= {"weights": weights.__dict__, f"{metric}_development": value}
        if test is not None:
            read, more = read_lists(test, format_, skip_bad)
            skipped += more
            found = work.tables(scorer, read, ngram=other, ngram_weight=ngram_weight)
    known = _references(references if references is not None else (tune if test is None else None))
    known = work.own_references(read) if known is None else known
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


def verdict(
    run: Path, lists: Path, /, *, format_: Format = "jsonl", lm_weight: float = 1.0, word_penalty: float = 0.0, old_lm_weight: float = 0.0,
    references: Path | None = None, allowed: float = 0.05, calibration: Kind = None,
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
    from selfnorm.tasks.nbest import unknown_of
    from selfnorm.tasks.rescore import Weights, own_references
    from selfnorm.tasks.verdict import judge

    scorer = open_scorer(run, normalized=True, calibration=calibration)
    read, skipped = read_lists(lists, format_, skip_bad)
    warn_of(unknown_of(scorer.vocab, read))
    known = own_references(read) if references is None else _references(references)
    found = judge(scorer, read, Weights(lm_weight, word_penalty, old_lm_weight), known, allowed)
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


def mix(
    run: Path, arpa: Path, held_out: Path, text: Path, /, *, calibration: Kind = None,
    to: Path | None = None, unnormalized: Annotated[bool, Parameter(negative="")] = False, json_: Json = False,
) -> None:  # fmt: skip
    """Mix a model with an n-gram model, word by word: the weight is tuned on one text and measured on another.

    Parameters
    ----------
    run
        Run folder made by selfnorm train.
    arpa
        ARPA or KenLM file.
    held_out
        Sentences to tune the weight on.
    text
        Sentences to measure on.
    to
        Also write the JSON here: the report shows it as a row.
    unnormalized
        Use our scores without log Z; then perplexities are unnormalized ones.
    """
    from selfnorm.opening import open_scorer
    from selfnorm.tasks.ngram import Ngram, mixture, word_scores

    scorer, other = open_scorer(run, not unnormalized, calibration), Ngram(arpa)
    found = mixture(*(word_scores(scorer, other, read_text(path).splitlines()) for path in (held_out, text)))
    if to is not None:
        row = {"model": run.name, "n-gram": arpa.name, **{k: f"{v:.3f}" for k, v in found.__dict__.items()}}
        write_json(
            to,
            {"kind_of_result": "Mixing with an n-gram model", "row": row, "command": command_line(), "date": today()},
        )
    if json_:
        print(json.dumps(found.__dict__))
        return
    mixed = f"mixed, weight of the n-gram {found.weight:.3f}"
    rows = [["ours", f"{found.neural:.2f}"], ["n-gram", f"{found.ngram:.2f}"], [mixed, f"{found.mixed:.2f}"]]
    table(f"{text}: {found.words:,} words, sentence by sentence", ["model", "perplexity"], rows)

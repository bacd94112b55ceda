"""selfnorm verdict"""

from __future__ import annotations

import json
from pathlib import Path

from selfnorm._util.console import table
from selfnorm.cli.options import Device, Format, Hf, Json, Kind, SkipBad, Tokenized, load_either, warn_of_unknown


def verdict(
    run: Path, lists: Path, /, *, format_: Format = "jsonl", lm_weight: float = 1.0, word_penalty: float = 0.0, old_lm_weight: float = 0.0,
    references: Path | None = None, allowed: float = 0.05, calibration: Kind = None,
    skip_bad: SkipBad = False, tokenized: Tokenized = False, device: Device = "", hf: Hf = None, json_: Json = False,
) -> None:  # fmt: skip
    """Say whether skipping log Z is safe on your lists: how often the 1-best changes, by how much, and what it saves.

    Parameters
    ----------
    run
        Run folder made by selfnorm train; or hf:FOLDER, a language model that transformers loads.
    lists
        File or folder of n-best lists.
    references
        Lines "name words", to report the change in word error rate.
    allowed
        The share of changed 1-bests you can live with.
    calibration
        Judge with this calibration instead of the one in use.
    """
    from selfnorm.tasks.nbest.base import unknown_of
    from selfnorm.tasks.nbest.lists import read_lists
    from selfnorm.tasks.rescoring import Weights
    from selfnorm.tasks.verdict import judge
    from selfnorm.tasks.wer import References, read_references

    scorer = load_either(run, calibration, hf, device)
    read, skipped = read_lists(lists, format_, skip_bad)
    warn_of_unknown(unknown_of(scorer.vocab, read, str.split if tokenized else scorer.tokenize))
    own = all(nbest.reference is not None for nbest in read)
    known = References(None if references is None else read_references(references)) if own or references else None
    found = judge(scorer, read, Weights(lm_weight, word_penalty, old_lm_weight), known, allowed, tokenized)
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

"""What each kind of JSON file of ours holds, in one place. Every reader checks its file here, once, when it is read."""

from __future__ import annotations

import re
from typing import Any

from selfnorm._util.schema import (
    Schema,
    anything,
    count,
    each,
    nothing,
    number,
    one_of,
    rows_of,
    table,
    text,
    values_of,
)
from selfnorm.config.signature import IN_SIGNATURE, parse_signature

SIZE = 1e12  # nothing of ours is larger, but for perplexities
amount, spread, size = number(-SIZE, SIZE), number(0, SIZE), number(0, SIZE)
perplexity = number(0)
PART = re.compile(r"[^$\\\x00-\x1f]*")  # parts of signatures stand in plots, where $ would begin a formula
PARTS = {
    "data": r"\w[\w.+-]*",
    "split": r"\w*",
    "criterion": r"\w+",
    "calibration": r"\w+",
    "alpha": r"-?\d{1,20}(\.\d{1,20})?(e[-+]?\d{1,2})?",
    "gamma": r"-?\d{1,20}(\.\d{1,20})?(e[-+]?\d{1,2})?",
    **dict.fromkeys(("d", "k", "seed", "max_words"), r"\d{1,19}"),  # a seed is below 2^63
}


def signature(value: Any) -> str | None:
    """A signature whose parts can be taken as what they are."""
    if text(value) is not None or not PART.fullmatch(value):
        return "should be a signature"
    parts = parse_signature(value)
    missing = [name for name in IN_SIGNATURE if name not in parts]
    if missing:
        return f"part {missing[0]} is wrong: it is not there"
    wrong = [
        name for name, form in PARTS.items() if name in parts and not re.fullmatch(form, parts[name], _flags(name))
    ]
    return f"part {wrong[0]} is wrong" if wrong else None


def _flags(name: str) -> re.RegexFlag:
    """A text may have a name of any letters; all else is ours."""
    return re.NOFLAG if name == "data" else re.ASCII


def _signature_if_any(value: Any) -> str | None:
    return signature(value) if "criterion:" in str(value) else text(value)


MEASUREMENT: Schema = table(
    {
        "signature": signature, "mu_z": amount, "sigma_z": spread, "perplexity": perplexity,
        "u_perplexity": number(0, nan=True), "correlation": number(-1.001, 1.001, nan=True), "words": count(),
        "seconds": size, "seed": count(2**63),
    },
    {
        "command": text, "date": text, "machine": text, "split": text, "calibration": text, "fitted": text, "trained": size,
        "intervals": values_of(each(number(nan=True), 2)), "blocks": rows_of(number(nan=True)), "recipe": values_of(anything),
        "histogram": table({}, {"counts": each(number(0)), "low": amount, "high": amount}),
        "entropy_histogram": table({}, {"counts": rows_of(number(0)), "entropy": each(amount, 2), "log_z": each(amount, 2)}),
        "theory": table({}, {
            "contexts": count(), "theorem_1_holds": count(), "abs_mu_z": amount, "theorem_2_epsilon": amount,
            "mean_epsilon": amount, "points": each(each(amount, 2)),
        }),
        "notes": table({}, {"examples": each(table({"context": text, "next": text, "log_z": amount, "entropy": amount}))}),
    },
)  # fmt: skip

HISTORY_LINE: Schema = table(
    {"epoch": number(0, 1e6), "perplexity": perplexity, "sigma_z": spread, "seconds": size},
    {
        "mu_z": amount,
        "u_perplexity": number(0, nan=True),
        "fit": amount,
        "penalty": amount,
        "learning_rate": size,
        "megabytes": size,
    },
)

_AFTER = table({}, {"mu_z": amount, "sigma_z": spread, "perplexity": perplexity, "u_perplexity": number(0, nan=True)})
CALIBRATION: Schema = table(
    {},
    {
        "valid_before": _AFTER, "valid_after": _AFTER, "seconds": size, "contexts": size, "passes": size, "minutes": size,
        "hidden": each(count()), "frequent": count(), "rank": count(), "top": count(), "preview": text, "multiply_adds": size,
        "share_of_exact": size, "residual_sums": values_of(each(size, 3)),
    },
)  # fmt: skip

ENVIRONMENT: Schema = table({}, {"text": text})
TOKENIZER: Schema = table({"tokens": text})
CORPUS: Schema = table({
    "name": text, "V": count(), "tokenizer": text, "tokens": values_of(count()), "unk": values_of(count()), "min_count": count(),
}, {"sha256": values_of(text)})  # fmt: skip

_NGRAM = one_of(nothing, table({"accuracy": amount, "mcnemar_p": amount}))
RESULT: Schema = table(
    {"kind_of_result": text, "row": values_of(one_of(text, number(nan=True), nothing))},
    {
        "signature": _signature_if_any, "data": text, "V": count(), "d": count(), "words": count(), "threads": count(),
        "words_read": count(), "questions": count(), "steps_per_epoch": count(), "step_seconds": size,
        "normalized_seconds": number(1e-9, SIZE), "unnormalized_seconds": number(1e-9, SIZE),
        "megabytes": one_of(size, nothing), "acc_n": amount, "acc_u": amount, "delta_acc": amount, "mcnemar_p": amount,
        "perplexity": number(0, nan=True), "sigma_z": number(0, SIZE, nan=True), "mu_z": number(nan=True),
        "ngram": _NGRAM, "command": text, "date": text, "machine": text,
    },
)  # fmt: skip
_NUMBERS = ("acc_n", "delta_acc", "perplexity", "sigma_z", "mcnemar_p", "words_read")
_COMPLETED = table({"row": table({"d": anything}), "signature": signature, **dict.fromkeys(_NUMBERS, amount)})


def result(value: Any) -> str | None:
    """A result of a task or of a step; those that are compared with the paper must hold all its numbers."""
    problem = RESULT(value)
    compared = problem is None and "questions" in value and "words_read" in value
    return _COMPLETED(value) if compared else problem

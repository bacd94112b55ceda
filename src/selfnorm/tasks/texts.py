"""Measure a text of any length in parts: each gives sums over blocks of words, and sums merge, whoever made them.

A part starts after <eos> with an empty state; within it the state is carried from sentence to sentence, as in a split. So the
lines of a part belong to what is measured, and the same text in the same parts gives the same numbers here and on a cluster.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from selfnorm._util.console import progress
from selfnorm._util.errors import UserError
from selfnorm.evaluation.measure import of_sums
from selfnorm.evaluation.measurement import Measurement
from selfnorm.evaluation.statistics import Array
from selfnorm.runs.calibrations import signed
from selfnorm.runs.evaluate import described
from selfnorm.runs.folder import Run
from selfnorm.tasks.corpora import measure_part
from selfnorm.tasks.shards import Job


def parts_here(run: Run, job: Job) -> Iterator[dict[str, Any]]:
    """The parts of a job, made one after the other in this process."""
    scorer = run.scorer(normalized=True, calibration=job.settings["calibration"])
    with progress("measure", sum(shard.lines for shard in job.shards), "lines") as advance:
        for shard in job.shards:
            yield measure_part(scorer, job, shard)
            advance(shard.lines)


def parts_in(folder: Path, job: Job) -> Iterator[dict[str, Any]]:
    """The parts that workers wrote, in order."""
    return (json.loads((folder / shard.name).read_text(encoding="utf-8")) for shard in job.shards)


def merged_parts(
    run: Run, job: Job, parts: Iterable[Mapping[str, Any]], start: float
) -> tuple[Measurement, tuple[int, int]]:
    """One measurement from the sums of all parts, in their order, and how many words there were and how many unknown.

    `start` is when it was begun (time.perf_counter).
    """
    sums, words, unknown = list[Array](), 0, 0
    for part in parts:
        sums.append(np.asarray(part["sums"], dtype=np.float64))
        words, unknown = words + part["words"], unknown + part["unknown"]
    if not sums:
        raise UserError(f"{job.source} is empty. Text with one sentence per line was expected.")
    split, kind = f"text-{job.sha256[:12]}/{job.shards[0].lines}", job.settings["calibration"]
    seconds = time.perf_counter() - start
    found = of_sums(np.concatenate(sums), signed(run, split, kind), run.recipe.training.seed, seconds)
    return described(found, run, split, kind), (words, unknown)

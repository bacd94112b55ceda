"""Options and work of `score`, `rescore` and `measure` with `--on ray`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from selfnorm._util.console import say
from selfnorm._util.errors import UserError
from selfnorm.cli.options import MANY

if TYPE_CHECKING:
    from selfnorm.evaluation.measurement import Measurement
    from selfnorm.runs.folder import Run

On = Annotated[Literal["here", "ray"], Parameter(help="ray: in shards on a Ray cluster, or on this machine's cores.")]
To = Annotated[
    Path | None, Parameter(help="With --on ray: folder for the parts and the manifest. The same command resumes.")
]
Jobs = Annotated[int, Parameter(help="With --on ray: shards at a time; 0 is one per CPU of the cluster.")]


def run_settings(run: Run, normalized: bool, calibration: str | None, unk_penalty: float) -> dict[str, Any]:
    """What the scores depend on; a model that must not be scored so is refused here, before anything starts."""
    from selfnorm.runs.opening import refuse_unsafe, warn_of_large_log_z
    from selfnorm.tasks.corpora import weights_of

    kind = run.kind(calibration)
    if not normalized:
        refuse_unsafe(run, kind)
        warn_of_large_log_z(run, kind)
    return {
        "run": str(run.folder.resolve()), "normalized": normalized, "calibration": kind, "unk_penalty": unk_penalty,
        "device": run.device, "weights": weights_of(run, kind),
    }  # fmt: skip


def score_on_ray(
    what: str, settings: dict[str, Any], source: Path | None, to: Path | None, jobs: int, shard: int
) -> None:
    """Plan the shards, compute those that are not done, verify all."""
    from selfnorm.studies.cluster import run_job
    from selfnorm.tasks.corpora import at_lists
    from selfnorm.tasks.shards import every, plan

    if source is None or to is None:
        raise UserError("--on ray reads a file and writes a folder: give both, the folder with --to.")
    check_sizes(shard, jobs)
    job = plan(what, settings, source, every(shard) if what == "score" else at_lists(shard))
    warn_of_many(*run_job(job, to, jobs, one_line_each=what == "score"))


def measure_text(
    run: Run, calibration: str | None, tokenized: bool, text: Path, on: str, to: Path | None, jobs: int, shard: int
) -> Measurement:
    """Measure a text in parts, here or on Ray: the same parts, the same sums."""
    from selfnorm.studies.cluster import run_job
    from selfnorm.tasks.shards import every, plan
    from selfnorm.tasks.texts import merged_parts, parts_here, parts_in

    start = time.perf_counter()
    check_sizes(shard, jobs)
    if (on == "ray") != (to is not None):
        raise UserError("--on ray writes a folder, and only --on ray does: give both --on ray and --to, or neither.")
    settings = {"tokenized": tokenized, **run_settings(run, True, calibration, 0.0)}
    job = plan("measure", settings, text, every(shard))
    if to is None:
        found, unknown = merged_parts(run, job, parts_here(run, job), start)
    else:
        run_job(job, to, jobs, one_line_each=False)
        found, unknown = merged_parts(run, job, parts_in(to, job), start)
        found.write(to / "measurement.json")
    warn_of_many(*unknown)
    return found


def check_sizes(shard: int, jobs: int) -> None:
    if shard < 1 or jobs < 0:
        raise UserError(f"--shard {shard}, --jobs {jobs}: at least 1 line a shard and 0 jobs were expected.")


def warn_of_many(words: int, unknown: int) -> None:
    if unknown > MANY * words:
        say(
            f"{unknown:,} of {words:,} words are not in the vocabulary. Is the text tokenized as the training text was?"
        )

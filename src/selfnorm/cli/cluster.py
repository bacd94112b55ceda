"""Options and work of `score --on ray` and `rescore --on ray`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from selfnorm._util.errors import UserError
from selfnorm.cli.options import MANY

if TYPE_CHECKING:
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
    from selfnorm._util.console import say
    from selfnorm.studies.cluster import run_job
    from selfnorm.tasks.corpora import at_lists
    from selfnorm.tasks.shards import every, plan

    if source is None or to is None:
        raise UserError("--on ray reads a file and writes a folder: give both, the folder with --to.")
    if shard < 1 or jobs < 0:
        raise UserError(f"--shard {shard}, --jobs {jobs}: at least 1 line a shard and 0 jobs were expected.")
    job = plan(what, settings, source, every(shard) if what == "score" else at_lists(shard))
    words, unknown = run_job(job, to, jobs, one_line_each=what == "score")
    if unknown > MANY * words:
        say(
            f"{unknown:,} of {words:,} words are not in the vocabulary. Is the text tokenized as the training text was?"
        )

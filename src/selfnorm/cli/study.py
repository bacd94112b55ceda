"""selfnorm study"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from selfnorm._util.console import say, table
from selfnorm._util.errors import UserError
from selfnorm.cli.options import Changes, From, check_jobs
from selfnorm.config.toml import as_toml

Only = Annotated[list[str] | None, Parameter(negative="")]


def app() -> App:
    studies = App(
        name="study",
        help="Run many recipes: the paper's tables, or a grid of your own.",
        help_format="plaintext",
    )
    studies.command(plan)
    studies.command(run)
    return studies


def plan(
    name: str, /, *, to: Path = Path("study"), from_: From = "", set_: Changes = None, seeds: int = 1,
    jobs: int = 0, only: Only = None,
) -> None:  # fmt: skip
    """Show what a study would train, what is done and how long the rest may take.

    Parameters
    ----------
    name
        paper, paper/table1 … paper/table6, d30, d100, step, large, precision, menu, mscc, swbd, demo, or a TOML file
        of yours.
    to
        Study folder.
    seeds
        Seeds per cell.
    jobs
        Trainings side by side; 0 takes one per core.
    only
        Only runs whose name has this as whole parts: nce, d100, ptb-nce-d30, or a name's last six letters. Repeat for more.
    """
    from selfnorm.studies.plan import chosen, read_study
    from selfnorm.studies.progress import refuse_wrong_texts, seconds_left
    from selfnorm.studies.view import HEAD, clock, differing, status_rows

    planned, most = chosen(read_study(name, _with_folder(set_, from_), seeds), only or []), check_jobs(jobs)
    refuse_wrong_texts(planned, to)
    rows, settings = status_rows(planned, to), differing(planned)
    if settings:
        rows = [[*row, settings.get(row[0], "")] for row in rows]
    table(f"{name}: {len(planned)} runs", [*HEAD, "settings"] if settings else HEAD, rows)
    left = seconds_left(planned, to, most)
    say("no run has been timed yet" if left is None else f"about {clock(left)} left")


def run(
    name: str, /, *, to: Path = Path("study"), from_: From = "", set_: Changes = None, seeds: int = 1, jobs: int = 0,
    on: Literal["here", "ray", "slurm"] = "here", slurm: Only = None, only: Only = None,
) -> None:  # fmt: skip
    """Train and measure everything a study plans. Stop it at any moment; the same command goes on, finished runs stay.

    Parameters
    ----------
    name
        paper, paper/table1 … paper/table6, d30, d100, step, large, precision, menu, mscc, swbd, demo, or a TOML file
        of yours.
    to
        Study folder.
    seeds
        Seeds per cell.
    jobs
        Trainings side by side; 0 takes one per core, or per CPU of the cluster.
    on
        here: processes on this machine. ray: Ray core tasks (extra "cluster"). slurm: one job a run (extra "slurm").
    slurm
        With --on slurm: NAME=VALUE as submitit names it, such as slurm_partition=long or timeout_min=600. Repeat for more.
    only
        Only runs whose name has this as whole parts: nce, d100, ptb-nce-d30, or a name's last six letters. Repeat for more.
    """
    from selfnorm.studies.engines import run_here, run_on_ray
    from selfnorm.studies.plan import about, chosen, note_study, read_study
    from selfnorm.studies.progress import refuse_wrong_texts
    from selfnorm.studies.slurm import run_on_slurm

    if slurm and on != "slurm":
        raise UserError("--slurm is for --on slurm: give both, or leave it out.")
    planned = chosen(read_study(name, _with_folder(set_, from_), seeds), only or [])
    refuse_wrong_texts(planned, to)
    most = check_jobs(jobs)
    note_study(to, about(name, set_ or []))
    if on == "slurm":
        failed = run_on_slurm(planned, to, jobs, slurm or [])
    else:
        failed = run_on_ray(planned, to, jobs) if on == "ray" else run_here(planned, to, most)
    say(f"{len(planned) - len(failed)} of {len(planned)} runs done in {to}. Next: selfnorm report {to} -o report.html")
    if failed:
        raise SystemExit(1)


def _with_folder(changes: list[str] | None, folder: str) -> list[str]:
    return [*(changes or []), *([f"data.folder={as_toml(str(Path(folder).resolve()))}"] if folder else [])]

"""The demo: the paper's five models on built-in real text, in minutes, with a table and a page."""

from __future__ import annotations

from pathlib import Path

from selfnorm._util.console import say, table
from selfnorm._util.errors import UserError
from selfnorm.data.corpus import describe
from selfnorm.evaluation.measurement import read_measurement
from selfnorm.registry.criteria import label
from selfnorm.report.page import write_report
from selfnorm.studies.engines import run_here
from selfnorm.studies.plan import Planned, read_study

HEAD = ["model", "calibration", "mu_z", "sigma_z", "perplexity", "u_perplexity"]


def demo(folder: Path, jobs: int) -> Path:
    """Train, measure as they are, after `shift` and after `mlp`, print one table, write the page; returns its path."""
    planned = list(read_study("demo").planned)
    text = describe(planned[0].recipe.data)  # prepared once here, before the runs share it
    say(f"State of the Union addresses: {text['V']:,} words in the vocabulary. Training five models, {jobs} at a time.")
    failed = run_here(planned, folder, jobs)
    if failed:
        raise UserError(f"{', '.join(failed)} failed; see {folder / 'logs'}.")
    table(
        "Test text: as trained, after shift, after mlp",
        HEAD,
        [_row(folder, run, s) for run in planned for s in run.then],
    )
    page = folder / "report.html"
    write_report(folder, page, "selfnorm demo: five language models, with and without log Z", paper=False)
    return page


def _row(folder: Path, run: Planned, step: str) -> list[str]:
    found = read_measurement(folder / run.name / f"{step}.json")
    numbers = [f"{found.mu_z:+.3f}", f"{found.sigma_z:.3f}", f"{found.perplexity:.1f}", f"{found.u_perplexity:.1f}"]
    return [label(run.recipe.criterion.name), step.partition(".")[2] or "none", *numbers]

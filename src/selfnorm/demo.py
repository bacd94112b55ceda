"""The demo: the paper's five models on built-in real text, in minutes, with a table and a page."""

from __future__ import annotations

from pathlib import Path

from selfnorm.errors import UserError
from selfnorm.names import label
from selfnorm.report.page import write_report
from selfnorm.results import read_measurement
from selfnorm.study.engines import run_here
from selfnorm.study.plan import read_study
from selfnorm.terminal import say, table
from selfnorm.text import describe

HEAD = ["model", "perplexity", "u_perplexity", "mu_z", "sigma_z", "mu_z shifted", "u_perplexity shifted"]


def demo(folder: Path, jobs: int) -> Path:
    """Train, measure before and after `shift`, print one table, write the page; gives its path."""
    planned = list(read_study("demo").planned)
    text = describe(planned[0].recipe.data)  # prepared once here, before the runs share it
    say(f"State of the Union addresses: {text['V']:,} words in the vocabulary. Training five models, {jobs} at a time.")
    failed = run_here(planned, folder, jobs)
    if failed:
        raise UserError(f"{', '.join(failed)} failed; see {folder / 'logs'}.")
    rows = []
    for run in planned:
        raw, shifted = (read_measurement(folder / run.name / f"{step}.json") for step in ("test", "test.shift"))
        rows.append([
            label(run.recipe.criterion.name), f"{raw.perplexity:.1f}", f"{raw.u_perplexity:.1f}", f"{raw.mu_z:+.3f}",
            f"{raw.sigma_z:.3f}", f"{shifted.mu_z:+.3f}", f"{shifted.u_perplexity:.1f}",
        ])  # fmt: skip
    table("Test text, before and after shift", HEAD, rows)
    page = folder / "report.html"
    write_report(folder, page, "selfnorm demo: five language models, with and without log Z", paper=False)
    return page

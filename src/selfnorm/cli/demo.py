"""selfnorm demo"""

from __future__ import annotations

from pathlib import Path

from selfnorm._util.console import say
from selfnorm.cli.options import check_jobs


def demo(*, to: Path = Path("demo"), jobs: int = 0) -> None:
    """Train the paper's five models on built-in text, print one table and write a report. Some minutes on two cores.

    Parameters
    ----------
    to
        Folder for the runs and report.html.
    jobs
        Trainings side by side; 0 takes one per core.
    """
    from selfnorm.studies.demo import demo as work

    page = work(to, check_jobs(jobs))
    say(f"report: {page}")

"""The command line. Each command is a few lines that call one function; torch is imported only by those that need it."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError
from rich.console import Console

from selfnorm import __version__
from selfnorm._util.disk import REASONS, StorageError, storage_sentence
from selfnorm._util.errors import Diverged, UserError
from selfnorm._util.manifest import trusting
from selfnorm.cli import (
    audit,
    bench,
    calibrate,
    complete,
    data,
    demo,
    export,
    measure,
    mix,
    report,
    rescore,
    score,
    study,
    train,
    verdict,
)

TRUST = "--trust"
app = App(
    name="selfnorm",
    help="Language models that need no softmax when they are used: train, measure, calibrate, score. "
    "Every command takes --trust: use a run's files as they are, though they differ from its manifest.",
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)
COMMANDS = (
    train.train, measure.measure, calibrate.calibrate, score.score, rescore.rescore, verdict.verdict, complete.complete,
    mix.mix, export.export, audit.audit, report.report, demo.demo, data.app(), study.app(), bench.app(),
)  # fmt: skip
for command in COMMANDS:
    app.command(command)
app.register_install_completion_command(help="Make the shell complete commands and options (bash, zsh, fish).")


def main(arguments: list[str] | None = None) -> int:
    """0 when all went well, 2 for wrong usage or input, 1 for a failure; no traceback for a user's mistake."""
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    given = sys.argv[1:] if arguments is None else arguments
    try:
        with _messages(errors), _terminable(), trusting(TRUST in given):
            app(
                ["./-" if argument == "-" else argument for argument in given if argument != TRUST],  # as a path: stdin
                exit_on_error=False,
                print_error=True,
                error_console=Console(stderr=True),
                result_action="return_none",
            )
    except CycloptsError:
        return 2
    except UserError as error:
        errors.print(f"error: {error}", markup=False)
        return 2
    except Diverged as error:
        errors.print(f"stopped: {error}", markup=False)
        return 1
    except KeyboardInterrupt:
        errors.print(f"Interrupted. {after_interrupt(given)}", markup=False)
        return 130
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
        errors.print(
            f"stopped: {_first_line(error)}. Choose a smaller model.d, criterion.k or batch (calibrate: --hidden).",
            markup=False,
        )
        return 1
    except BrokenPipeError:
        return 1
    except StorageError as error:
        errors.print(f"stopped: {error.strerror}", markup=False)
        return 1
    except OSError as error:
        if error.errno in REASONS:
            place = Path(error.filename) if error.filename else None
            errors.print(f"stopped: {storage_sentence(error.errno, place)}", markup=False)
            return 1
        where = f"{error.filename}: " if error.filename else ""
        errors.print(
            f"error: {where}{error.strerror or error}. Check the path, its permissions and the space left.",
            markup=False,
        )
        return 2
    return 0


def after_interrupt(given: Sequence[str]) -> str:
    """What is left of the work: trainings, studies, audits and jobs in shards resume, other commands start again."""
    words = [word for word in given if word != TRUST]
    shards = "--on=ray" in words or ("--on", "ray") in pairwise(words)
    resumes = shards or words[:1] in (["train"], ["demo"], ["audit"]) or words[:2] == ["study", "run"]
    return (
        "What was saved stays; run the same command to resume." if resumes else "What was stored before is as it was."
    )


@contextmanager
def _messages(console: Console) -> Iterator[None]:
    """What the library logs and warns of, as lines on stderr."""

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            console.print(record.getMessage(), markup=False)

    logger, handler = logging.getLogger("selfnorm"), Lines()
    level, propagate, shown = logger.level, logger.propagate, warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if category.__module__.startswith("selfnorm"):
            console.print(f"warning: {message}", markup=False)
        else:
            shown(message, category, *rest, **more)

    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("always", module="selfnorm")
            warnings.filterwarnings("always", category=Warning, message=".*: log Z is not near 0")
            warnings.showwarning = show
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM unwind like Ctrl-C does, so that a study takes its trainings with it and nothing is left half-way."""

    def stop(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].split("] . ")[-1]

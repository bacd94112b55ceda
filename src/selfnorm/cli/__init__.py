"""The door. Each command is a few lines that call one function; torch is imported only by those that need it."""

from __future__ import annotations

import errno
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cyclopts import App, CycloptsError
from rich.console import Console

from selfnorm import __version__
from selfnorm.cli import benching, listing, studies, texts, training, using
from selfnorm.errors import Diverged, UserError

app = App(
    name="selfnorm",
    help="Language models that need no softmax when they are used: train, measure, calibrate, score.",
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)
texts.register(app)
training.register(app)
using.register(app)
listing.register(app)
studies.register(app)
benching.register(app)


def main(arguments: list[str] | None = None) -> int:
    """0 when all went well, 2 for wrong usage or input, 1 for a failure; no traceback for a user's mistake."""
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        given = sys.argv[1:] if arguments is None else arguments
        with _terminable():
            app(
                given,
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
        errors.print("interrupted; what was saved stays, and the same command goes on from there", markup=False)
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
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        errors.print(
            f"error: {where}{error.strerror or error}. Check the path, its permissions and the space left.",
            markup=False,
        )
        return 1 if error.errno == errno.ENOSPC else 2
    return 0


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

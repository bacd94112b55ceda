"""Ctrl-C and SIGTERM while something is under way that should be finished or saved first."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

log = logging.getLogger("selfnorm")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Held:
    """Keeps the first signal until `deliver`. The same signal again has its usual effect at once. One of the other kind has not,
    because after Ctrl-C a study also sends SIGTERM to its trainings, which the terminal has already interrupted."""

    def __init__(self, usual: dict[int, Any]) -> None:
        self.usual = usual
        self.number: int | None = None

    def __call__(self, number: int, frame: Any) -> None:
        if self.number == number:
            self.deliver()
        elif self.number is None:
            self.number = number
            log.info("Interrupted: the current step is finished and saved first. Interrupt again to stop at once.")

    def deliver(self) -> None:
        """Let the signal have its usual effect, if there was one."""
        number, self.number = self.number, None
        if number is not None:
            self.release()
            signal.raise_signal(number)

    def release(self) -> None:
        """Put the usual handlers back."""
        for number, handler in self.usual.items():
            signal.signal(number, handler)


@contextmanager
def held() -> Iterator[Held]:
    """In this block Ctrl-C and SIGTERM wait. Ignored signals stay ignored. Outside the main thread nothing is held."""
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in SIGNALS} if main else {}
    waiting = Held({number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)})
    for number in waiting.usual:
        signal.signal(number, waiting)
    try:
        yield waiting
    finally:
        waiting.release()

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
    """The first signal is kept until `deliver`. The same one again has its usual effect at once; another kind does not: a study
    whose terminal is given Ctrl-C sends its trainings SIGTERM too."""

    def __init__(self, usual: dict[int, Any]) -> None:
        self.usual = usual
        self.number: int | None = None

    def __call__(self, number: int, frame: Any) -> None:
        if self.number == number:
            self.deliver(number)
        elif self.number is None:
            self.number = number
            log.info("Stopping after this step, to save it. Once more stops at once.")

    def deliver(self, number: int) -> None:
        """What the signal would have done."""
        self.number = None
        self.release()
        signal.raise_signal(number)

    def release(self) -> None:
        for number, handler in self.usual.items():
            signal.signal(number, handler)


@contextmanager
def held() -> Iterator[Held]:
    """In this block signals wait. Those that are ignored stay so, and in other threads than the main one nothing is held."""
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in SIGNALS} if main else {}
    waiting = Held({number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)})
    for number in waiting.usual:
        signal.signal(number, waiting)
    try:
        yield waiting
    finally:
        waiting.release()

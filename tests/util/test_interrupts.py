"""Ctrl-C and SIGTERM can be held back; the same signal again is not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from selfnorm._util.interrupts import SIGNALS, held


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_waits_until_it_is_delivered(number: int, usual: list[int]) -> None:
    with held() as signals:
        signal.raise_signal(number)
        assert signals.number == number and not usual
        signals.deliver()
        assert usual == [number] and signals.number is None


@pytest.mark.parametrize("number", SIGNALS)
def test_the_same_signal_again_acts_at_once(number: int, usual: list[int]) -> None:
    with held() as signals:
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert usual == [number] and signals.number is None


def test_a_signal_of_another_kind_waits_too(usual: list[int]) -> None:
    with held() as signals:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert signals.number == signal.SIGINT and not usual


def test_handlers_are_as_before_afterwards(usual: list[int]) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(ValueError), held():
        assert [signal.getsignal(number) for number in SIGNALS] != before
        raise ValueError
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_an_ignored_signal_stays_ignored(usual: list[int]) -> None:
    """As in a program started with nohup."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with held() as signals:
        signal.raise_signal(signal.SIGINT)
        assert signals.number is None


def test_nothing_is_held_in_another_thread() -> None:
    found = []

    def work() -> None:
        with held() as signals:
            found.append(signals.usual)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [{}]


@pytest.fixture
def usual() -> Iterator[list[int]]:
    """The signals that handlers set before the block were given."""
    given: list[int] = []
    before = {number: signal.signal(number, lambda n, frame: given.append(n)) for number in SIGNALS}
    yield given
    for number, handler in before.items():
        signal.signal(number, handler)

"""Kill a command before each change of the disk, or let the disk be full from there on; rerun it; compare everything."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selfnorm.cli import main
from selfnorm.runs.opening import load

from .faults import FAIL, KILL, TORN, Fault
from .world import TRACEBACK, Ended, World, state

VARIANTS = [
    (criterion, encoder)
    for encoder in ("lstm", "gru", "transformer")
    for criterion in ("nce", "softmax", "devlin", "nce_learned", "nce_r")
]
REASONS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


@dataclass
class Tally:
    """How often a fault was tried and held, and what went wrong."""

    fault: str
    tried: int = 0
    wrong: list[str] = field(default_factory=list)
    note: Callable[[], None] = lambda: None  # called now and then, to store what has been found so far

    def add(self, problem: str | None) -> None:
        self.tried += 1
        if self.tried & (self.tried - 1) == 0 or self.tried % 50 == 0:
            self.note()
        if problem is not None:
            self.wrong.append(problem)

    def row(self) -> dict[str, Any]:
        return {
            "fault": self.fault,
            "tried": self.tried,
            "held": self.tried - len(self.wrong),
            "wrong": self.wrong[:20],
        }


@dataclass(frozen=True)
class Case:
    """A command, the folder it starts from, and what it leaves if nothing happens."""

    name: str
    arguments: list[str]
    template: Path | None
    expected: dict[str, Any]
    changes: int


def cases(world: World) -> list[Case]:
    """Training from nothing and further, three calibrations, a measurement, a prepared text."""
    world.reset(None)
    run = str(world.run)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        # here, not in a child: what the commands import is then there for all children
        assert main(world.train(1, "valid.shift")) == main(["calibrate", run, "--with", "affine"]) == 0
        assert main(["measure", run]) == 0
    world.reset(None)
    _good(world.command(world.train(1, "valid.shift")))
    one = world.keep("one")
    plans: list[tuple[str, list[str], Path | None]] = [
        ("train", world.train(1, "valid", "valid.shift"), None),
        ("train further", world.train(2, "valid"), one),
        ("calibrate shift", ["calibrate", run, "--with", "shift"], one),
        ("calibrate affine", ["calibrate", run, "--with", "affine"], one),
        ("use a calibration", ["calibrate", run, "--with", "shift", "--stored"], one),
        ("measure", ["measure", run, "--split", "test"], one),
        ("prepare", ["data", "prepare", "other", "--file", str(world.text)], None),
    ]
    return [_case(world, name, arguments, template) for name, arguments, template in plans]


def _case(world: World, name: str, arguments: list[str], template: Path | None) -> Case:
    world.reset(template)
    ended = world.command(arguments, Fault(world.trial))
    _good(ended)
    assert ended.changes > 0, f"{name} changed nothing: is the fault library loaded?"
    return Case(name, arguments, template, state(world.trial), ended.changes)


def _good(ended: Ended) -> None:
    assert ended.code == 0, ended.said


def points(world: World, modes: tuple[int, ...]) -> Iterator[tuple[Case, int, int]]:
    """Every change of every command with every fault, spread so that a part of them is of all kinds."""
    every = [(case, at, mode) for case in cases(world) for at in range(1, case.changes + 1) for mode in modes]
    step = 7919  # a prime, so that no point comes twice
    return (every[i * step % len(every)] for i in range(len(every)))


def variants(seed: int) -> Iterator[tuple[int, tuple[str, str]]]:
    """Kinds of models without end, beginning with the seed's."""
    return ((number, VARIANTS[(seed - 1 + number) % len(VARIANTS)]) for number in itertools.count())


def kills(base: Path, most: int, tally: Tally, seed: int = 1) -> None:
    """`most` kills over as many kinds of models as it takes."""
    for number, (criterion, encoder) in variants(seed):
        world = World(base / f"kills-{number}", criterion, encoder)
        for case, at, mode in points(world, (KILL, TORN)):
            if tally.tried >= most:
                return
            kill_once(world, case, at, mode, tally)


def kill_once(world: World, case: Case, at: int, mode: int, tally: Tally) -> None:
    world.reset(case.template)
    ended = world.command(case.arguments, Fault(world.trial, at, mode))
    if ended.code != -signal.SIGKILL:
        if ended.code != 0:
            tally.add(f"{case.name}, change {at}: {ended.said[-300:]}")
        return  # a torn write is only possible where something is written
    tally.add(_after(world, case, f"{case.name}, killed before change {at}"))


def full_disks(base: Path, most: int, tally: Tally, seed: int = 1) -> None:
    """From the n-th change on nothing can be written: one sentence, exit code 1, nothing lost, and the rerun is whole."""
    for number, (criterion, encoder) in variants(seed):
        world, reasons = World(base / f"full-{number}", criterion, encoder), itertools.cycle(REASONS)
        for case, at, mode in points(world, (FAIL,)):
            if tally.tried >= most:
                return
            fill_once(world, case, at, mode, next(reasons), tally)


def fill_once(world: World, case: Case, at: int, mode: int, reason: int, tally: Tally) -> None:
    world.reset(case.template)
    ended = world.command(case.arguments, Fault(world.trial, at, mode, reason))
    if ended.code == 0:  # nothing of use was left to write, or a measurement was printed that could not be stored
        whole = "Not stored" in ended.said or state(world.trial) == case.expected
        problem = None if whole else f"{case.name}, change {at}, errno {reason}: exit 0, though something is missing"
    else:
        stopped = [line for line in ended.said.splitlines() if line.startswith("stopped: ")]
        named = ended.code == 1 and len(stopped) == 1 and str(world.trial) in stopped[0]
        problem = None if named else f"{case.name}, change {at}, errno {reason}: exit {ended.code}: {ended.said[-300:]}"
    tally.add(problem or _after(world, case, f"{case.name}, disk full at change {at}"))


def _after(world: World, case: Case, what: str) -> str | None:
    """What is wrong after a rerun; None if all is as it would have been."""

    def again() -> int:
        if case.template is not None:
            load(world.run, normalized=True)  # it can be used before anything repairs it
        return main(case.arguments)

    ended = world.child(again)
    if ended.code != 0:
        kind = "traceback" if ended.code == TRACEBACK else f"exit {ended.code}"
        return f"{what}: rerun: {kind}: {ended.said[-300:]}"
    found = state(world.trial)
    different = sorted(name for name in {*found, *case.expected} if found.get(name) != case.expected.get(name))
    return f"{what}: differs after the rerun: {', '.join(different)}" if different else None

"""A tiny world: a text, recipes, trained run folders, and commands that run in forked children of a warm process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from selfnorm.cli import main

from ..conftest import write_text
from .faults import Fault

VOLATILE = {"seconds", "date", "command", "megabytes", "machine", "minutes", "passes", "folder"}
LOCKS = (".lock", ".manifest.lock")
TRACEBACK, SECONDS = 99, 120.0
RECIPE = """
[data]
file = "{text}"
[model]
d = 4
dropout = 0.0
init = 0.4
encoder = "{encoder}"
layers = 1
heads = 1
memory = 4
[criterion]
name = "{criterion}"
k = 5
[training]
epochs = {epochs}
batch = 4
steps = 16
learning_rate = 0.5
checkpoint_minutes = 0.0
"""


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code (negative: the signal), what it said, and how often it changed the disk."""

    code: int
    said: str
    changes: int


class World:
    """`trial` is the folder that commands work in; everything they touch is below it, cache included."""

    def __init__(self, base: Path, criterion: str = "nce", encoder: str = "lstm") -> None:
        self.base, self.trial = base, base / "trial"
        base.mkdir(parents=True, exist_ok=True)
        self.text = write_text(base / "tiny.txt", lines=60)
        for epochs in (1, 2):
            recipe = RECIPE.format(text=self.text, criterion=criterion, encoder=encoder, epochs=epochs)
            (base / f"r{epochs}.toml").write_text(recipe)
        os.environ["SELFNORM_CACHE"] = str(self.trial / "cache")
        self.run = self.trial / "run"

    def train(self, epochs: int, *then: str) -> list[str]:
        steps = [part for step in then for part in ("--then", step)]
        return ["train", str(self.base / f"r{epochs}.toml"), "--to", str(self.run), *steps]

    def reset(self, template: Path | None) -> None:
        shutil.rmtree(self.trial, ignore_errors=True)
        if template is None:
            self.trial.mkdir(parents=True)
        else:
            shutil.copytree(template, self.trial)

    def keep(self, name: str) -> Path:
        """Keep the trial folder as a template."""
        shutil.rmtree(self.base / name, ignore_errors=True)
        return Path(shutil.copytree(self.trial, self.base / name))

    def command(self, arguments: list[str], fault: Fault | None = None) -> Ended:
        return self.child(lambda: main(arguments), fault)

    def child(self, work: Callable[[], int], fault: Fault | None = None) -> Ended:
        """Run in a forked child; a traceback is exit code 99."""
        process, said, reading = self.begin(work, fault)
        return self.end(process, said, reading)

    def begin(self, work: Callable[[], int], fault: Fault | None = None) -> tuple[int, Path, int]:
        said = self.base / f"said-{time.monotonic_ns()}"
        reading, writing = os.pipe()
        process = os.fork()
        if process:
            os.close(writing)
            return process, said, reading
        code = TRACEBACK
        try:
            handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            if fault is not None:
                fault.start()
            try:
                code = work()
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else 1
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(writing, str(Fault.stop() if fault is not None else 0).encode())
        finally:
            os._exit(code)

    def end(self, process: int, said: Path, reading: int) -> Ended:
        until = time.monotonic() + SECONDS
        while True:
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                break
            if time.monotonic() > until:
                os.kill(process, signal.SIGKILL)
            time.sleep(0.002)
        changes = int(os.read(reading, 100) or b"0")
        os.close(reading)
        text = said.read_text(errors="replace") if said.exists() else ""
        said.unlink(missing_ok=True)
        return Ended(os.waitstatus_to_exitcode(status), text, changes)


def state(folder: Path) -> dict[str, Any]:
    """Everything below a folder that must be the same whatever happened on the way: not times, dates and locks."""
    return {
        str(path.relative_to(folder)): _content(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name not in LOCKS
        and not path.name.endswith(".lock")
        and path.parent.name != "checked"
    }


def _content(path: Path) -> Any:
    if path.name == "checkpoint.safetensors":
        return {name: t.numpy().tobytes() for name, t in load_file(path).items()}
    if path.name == "manifest.json":
        return {**json.loads(path.read_text()), "files": sorted(json.loads(path.read_text())["files"]), "sha256": ""}
    if path.suffix == ".json":
        return _stable(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        return [_stable(json.loads(line)) for line in path.read_text().splitlines()]
    return path.read_bytes()


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stable(entry) for name, entry in value.items() if name not in VOLATILE}
    return [_stable(entry) for entry in value] if isinstance(value, list) else value

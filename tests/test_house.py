"""The floors: a file imports only from below, nothing is a knot, and light rooms start without torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "selfnorm"

FLOORS = [
    {"errors", "zloss", "__init__"},
    {"files", "terminal", "memory"},
    {"recipe"},
    {
        "names",
        "results",
        "statistics",
        "text",
        "batches",
        "noise",
        "encoders",
        "normalizers",
        "one_pass",
        "sgd",
    },
    {"output", "normalized"},
    {"model", "criteria"},
    {"train", "measure", "score"},
    {"calibrate", "theory", "runs", "tasks"},
    {"opening", "bench", "export", "checkpoint"},
    {"completing", "familiar", "drive", "costs"},
    {"experiment"},
    {"study", "report"},
    {"demo"},
    {"cli"},
    {"__main__"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def room(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("selfnorm"):
            parts = (node.module or "").split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return {name if name in FLOOR else "__init__" for name in found}


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_a_file_imports_only_from_floors_below(path: Path) -> None:
    own = room(path)
    assert own in FLOOR, f"{own} has no floor: put it into the house"
    for other in imports(path) - {own}:
        assert FLOOR[other] < FLOOR[own], f"{path.name} (floor {FLOOR[own]}) imports {other} (floor {FLOOR[other]})"


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_a_file_is_short_enough_to_read(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 210


@pytest.mark.parametrize(
    "module", ["selfnorm.cli", "selfnorm.report.page", "selfnorm.study.engines", "selfnorm.results"]
)
def test_light_rooms_start_without_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_is_unpickled() -> None:
    for path in SRC.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "pickle" not in text and "torch.load(" not in text, path

"""The architecture: imports go one way, files are short, light packages start without torch."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "selfnorm"

# Lowest first: a package imports only from those before it. The names of the field, in the order a word passes them.
ORDER = [
    "__init__",
    "_util",
    "registry",
    "config",
    "data",
    "nn",
    "criteria",
    "evaluation",
    "calibration",
    "scoring",
    "runs",
    "training",
    "tasks",
    "studies",
    "report",
    "hf",
    "cli",
    "__main__",
]
LATER = {
    "studies.demo": "report",  # the demo writes a report: imported when it is called, not with the package
    "__init__": "_util",  # _util.isa sets torch's environment variables, before anything imports torch
}
FILES = sorted(SRC.rglob("*.py"))


def package(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> set[str]:
    """Packages of selfnorm that are imported, but for those that only type checkers see."""
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    found = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith("selfnorm")
            and id(node) not in typing_only
        ):
            parts = (node.module or "").split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return {name if name in ORDER else "__init__" for name in found}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_a_file_imports_only_from_packages_before_its_own(path: Path) -> None:
    own = package(path)
    assert own in ORDER, f"{own} has no place in the order"
    module = ".".join(path.relative_to(SRC).with_suffix("").parts)
    for other in imported(ast.parse(path.read_text(encoding="utf-8"))) - {own, LATER.get(module, own)}:
        assert ORDER.index(other) < ORDER.index(own), f"{path.relative_to(SRC)} imports {other}"


def test_packages_are_few_and_files_are_short() -> None:
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in FILES if path.name != "__init__.py"]
    assert max(lengths) <= 300
    assert statistics.median(lengths) <= 120
    assert len([p for p in SRC.iterdir() if p.name != "__pycache__"]) <= 19


@pytest.mark.parametrize(
    "module", ["selfnorm", "selfnorm.cli", "selfnorm.report.page", "selfnorm.studies.engines", "selfnorm.runs.history"]
)
def test_light_modules_start_without_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_is_unpickled() -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert "pickle" not in text and "torch.load(" not in text, path


def test_plain_words_are_used() -> None:
    private = re.compile(r"\b(chance|mended|mend|corridor|attic|strays)\b")
    for path in [*FILES, *(SRC.parent.parent / "docs").glob("*.md"), SRC.parent.parent / "README.md"]:
        text = path.read_text(encoding="utf-8").lower()
        assert not private.search(text), path

"""The README keeps its promises: its commands exist with their options, its Python runs, and it is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from selfnorm.cli import main
from selfnorm.report.collect import collect
from selfnorm.report.menu import menus

from .conftest import write_text

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    selfnorm (.+?)(?:\s+#.*)?$", README, re.MULTILINE)
GROUPS = {"data", "study", "bench"}


def test_it_has_at_most_130_lines_and_opens_with_the_two_commands_and_a_figure() -> None:
    lines = README.splitlines()
    assert len(lines) <= 130
    assert any("make demo" in line for line in lines[:12]) and any("make test" in line for line in lines[:12])
    assert len(re.findall(r"!\[[^\]]+\]\((docs/figures/[^)]+)\)", README)) == 1


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_and_option_exists(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    words = line.split()
    command = words[:2] if words[0] in GROUPS else words[:1]
    assert main([*command, "--help"]) == 0
    said = capsys.readouterr().out
    for option in [word for word in words if word.startswith("--")]:
        assert option in said, f"selfnorm {' '.join(command)} has no {option}"


def test_there_are_commands_to_check() -> None:
    assert len(COMMANDS) >= 10


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    block = re.search(r"```python\n(.+?)```", README, re.DOTALL)
    assert block is not None
    write_text(tmp_path / "my.txt")
    monkeypatch.chdir(tmp_path)
    assert len(block.group(1).splitlines()) <= 8 and re.findall(r"import \S+", block.group(1)) == ["import selfnorm"]
    exec(compile(block.group(1).replace("d=100", "d=8, epochs=1, batch=4, k=5"), "README.md", "exec"), {})
    sigma, score = capsys.readouterr().out.split()
    assert float(sigma) >= 0 and float(score) < 0


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_guide_shows_the_menu_as_measured() -> None:
    guide = (ROOT / "docs" / "criteria.md").read_text(encoding="utf-8")
    tables = [t.markdown().rstrip() for t in menus(collect(ROOT / "results")) if re.match(r"Menu: (ptb|sotu)", t.title)]
    assert tables and all(table in guide for table in tables)

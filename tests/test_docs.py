"""The documentation is complete and true: generated parts are current, links lead somewhere, tutorials run."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cyclopts import App

import selfnorm as sn
from selfnorm.cli import app, main
from selfnorm.config.toml import SECTIONS
from selfnorm.registry.criteria import CRITERIA
from selfnorm.registry.encoders import ENCODERS

from .conftest import write_text

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = sorted({*PAGES, *ROOT.glob("*.md")} - {DOCS / "reproduction-tables.md"})  # that one is a report
NAV = re.findall(r"^ +- .+: ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
TUTORIALS = ["start.md", *(f"tutorials/own-{name}.md" for name in ("text", "head", "encoder", "criterion"))]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    sys.path.insert(0, str(DOCS))
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commands(of: App = app, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command by the words that call it."""
    found: list[tuple[str, ...]] = []
    for name in of:
        if not name.startswith("-"):
            found += [(*before, name), *commands(of[name], (*before, name))]
    return found


def test_every_option_of_every_command_is_in_the_reference(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    assert len(commands()) >= 18
    for words in commands():
        section = re.search(rf"^#+ selfnorm {' '.join(words)}\n(.+?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
        assert section is not None, words
        capsys.readouterr()
        assert main([*words, "--help"]) == 0
        said = capsys.readouterr().out
        options = (
            set(re.findall(r"(?<![\w-])--[a-z][\w-]+", said[said.find("Parameters") :]))
            if "Parameters" in said
            else set()
        )
        missing = [option for option in options if option not in section[1] and option not in ("--help", "--version")]
        assert not missing, (words, missing)


def test_every_setting_criterion_and_encoder_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "recipe.md").read_text(encoding="utf-8")
    for section, kind in SECTIONS.items():
        for field in dataclasses.fields(kind):
            row = re.search(rf"^\| `{section}\.{field.name}` \| `[^|]*` \| (.+) \|$", text, re.MULTILINE)
            assert row is not None and len(row[1]) > 5, f"{section}.{field.name} needs a comment in config/recipe.py"
    for name in (*CRITERIA, *ENCODERS):
        assert f"`{name}`" in text, name


def test_the_generated_pages_are_current(generate: ModuleType) -> None:
    for name in ("cli", "recipe"):
        stored = (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8")
        assert stored == getattr(generate, name)(), "run: python docs/generate.py"


def test_the_pictures_are_current(generate: ModuleType) -> None:
    made = generate.figures()
    assert {"before-after", "log-z", "heads"} <= set(made)
    for name, (digest, _) in made.items():
        assert f'data-digest="{digest}"' in (DOCS / "figures" / f"{name}.svg").read_text(encoding="utf-8")[:400], (
            "run: python docs/generate.py --figures"
        )


def test_every_page_is_in_the_navigation_and_every_entry_is_a_page() -> None:
    assert len(NAV) == len(set(NAV))
    assert set(NAV) == {page.relative_to(DOCS).as_posix() for page in PAGES}, "add the page to nav in mkdocs.yml"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(DOCS).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.+?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!http|#)([^)\s#]+)", text):
        place = (page.parent / target).resolve()
        assert place.exists() and place.is_relative_to(DOCS.resolve()), f"{target} is not a file of the site"


@pytest.mark.parametrize("page", TEXTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_lines_have_at_most_100_characters(page: Path) -> None:
    """Except code, tables and pictures, which cannot be wrapped."""
    text = re.sub(r"```.+?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    if "<!-- Written by" not in text:
        long = [line for line in text.splitlines() if len(line) > 100]
        assert all(re.match(r"\||    |!\[", line) for line in long), long


def test_the_python_reference_has_every_public_name() -> None:
    named = re.findall(
        r"^::: selfnorm\.(.+)$", (DOCS / "reference" / "api.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(named) == sorted(f"{module}.{name}" for name, module in sn._PUBLIC.items())


def shown_commands() -> list[str]:
    """Every `selfnorm …` line that a page shows, each once."""
    lines = [line for page in PAGES if page.name != "cli.md" for line in page.read_text(encoding="utf-8").splitlines()]
    found = [re.match(r"^ {4,}selfnorm ([a-z].*?)(?:\s+#.*)?$", line) for line in lines if line.startswith("    ")]
    return sorted({match[1] for match in found if match})


def test_commands_on_the_pages_exist_with_their_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    known = {" ".join(words) for words in commands()}
    lines = shown_commands()
    assert len(lines) > 30
    for line in lines:
        words = line.split("|")[0].split(";")[0].split()
        command = words[:2] if " ".join(words[:2]) in known else words[:1]
        assert " ".join(command) in known, line
        capsys.readouterr()
        assert main([*command, "--help"]) == 0
        said = capsys.readouterr().out
        for option in [word.partition("=")[0] for word in words if word.startswith("--")]:
            assert option in said, f"{line}: selfnorm {' '.join(command)} has no {option}"


@pytest.mark.parametrize("name", TUTORIALS)
def test_the_python_of_a_tutorial_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = write_text(tmp_path / "t.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "my.txt").write_text("".join(f"{line.capitalize()}.\n" for line in lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.+?)^```", (DOCS / name).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    run_blocks(blocks, name, monkeypatch)
    assert capsys.readouterr().out.strip(), "it prints something"


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jupytext = pytest.importorskip("jupytext")
    notebook = jupytext.read(DOCS / "tutorials" / "notebook.md")
    monkeypatch.chdir(tmp_path)
    names = run_blocks([cell.source for cell in notebook.cells if cell.cell_type == "code"], "notebook", monkeypatch)
    assert all(
        run.measure("test").sigma_z < 0.05 < run.measure("test", calibration="none").sigma_z
        for run in names["runs"].values()
    )
    assert "<text" in (tmp_path / "log-z.svg").read_text(encoding="utf-8") and (tmp_path / "toy.html").exists()


def run_blocks(blocks: list[str], name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Execute blocks in a module of their own, which registries can name."""
    module = ModuleType(f"tutorial_{re.sub(r'[^a-z]', '_', name)}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    try:
        for block in blocks:
            exec(compile(block, name, "exec"), module.__dict__)
    finally:
        CRITERIA.pop("hinge", None)
        ENCODERS.pop("window3", None)
    return module.__dict__

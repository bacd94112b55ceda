"""The index of results: the committed one is current, and a folder's own README is never replaced."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from selfnorm._util.errors import UserError
from selfnorm._util.files import write_json
from selfnorm.cli import main
from selfnorm.config.recipe import Recipe
from selfnorm.config.signature import signature
from selfnorm.config.toml import write_recipe
from selfnorm.evaluation.measurement import Measurement
from selfnorm.report.index import HEAD, index_text, write_index

RESULTS = Path(__file__).parent.parent.parent / "results"
LINK = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\) \|", re.MULTILINE)


def measure(folder: Path, split: str, perplexity: float, calibration: str = "none") -> None:
    signed = signature(Recipe(), split, calibration)
    done = Measurement(
        signed,
        0.1,
        0.25,
        perplexity,
        120.0,
        0.0,
        1000,
        1.0,
        1,
        f"selfnorm measure x --split {split}",
        "2026-01-02",
        "m",
    )
    done.write(folder / f"{split}.{calibration}.json")


def cells(text: str, run: str) -> dict[str, str]:
    row = next(line for line in text.splitlines() if line.startswith(f"| [{run}]"))
    return dict(zip([*HEAD, "measured"], row.strip("| ").split(" | "), strict=True))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    measure(tmp_path / "one" / "a", "valid", 200.0)
    measure(tmp_path / "one" / "a", "test", 100.0)
    measure(tmp_path / "one" / "a", "test", 90.0, "mlp")
    write_json(
        tmp_path / "one" / "a" / "cost.json",
        {"kind_of_result": "cost", "row": {}, "signature": signature(Recipe(), "valid")},
    )
    measure(tmp_path / "two" / "b", "valid", 300.0)
    task = {"perplexity": 50.0, "sigma_z": 0.5, "command": "selfnorm complete c"}
    table = {"kind_of_result": "Sentence completion", "row": {}, "signature": signature(Recipe(), "questions"), **task}
    write_json(tmp_path / "two" / "c" / "complete.json", table)
    return tmp_path


def test_a_row_shows_the_raw_model_on_the_test_text_and_lists_all_that_was_measured(folder: Path) -> None:
    row = cells(index_text(folder), "a")
    assert (row["split"], row["perplexity"], row["sigma_z"]) == ("test", "100.00", "0.2500")
    assert (row["command"], row["date"]) == ("`selfnorm measure x --split test`", "2026-01-02")
    assert row["measured"] == "test, valid, test.mlp, cost"


def test_without_a_test_text_it_shows_the_validation_text_or_the_task(folder: Path) -> None:
    text = index_text(folder)
    assert (cells(text, "b")["split"], cells(text, "b")["perplexity"]) == ("valid", "300.00")
    assert (cells(text, "c")["split"], cells(text, "c")["perplexity"]) == ("questions", "50.00")


def test_each_study_has_a_table(folder: Path) -> None:
    assert re.findall(r"^### (.+)$", index_text(folder), re.MULTILINE) == ["one (1 run)", "two (2 runs)"]


def test_the_command_writes_the_index_and_writes_it_again(folder: Path) -> None:
    for _ in range(2):
        assert main(["report", str(folder), "--index"]) == 0
        assert (folder / "README.md").read_text(encoding="utf-8") == index_text(folder)


def test_a_run_alone_links_to_itself(folder: Path) -> None:
    run = next(folder.rglob("*.json")).parent
    write_recipe(run / "recipe.toml", Recipe())
    assert f"[{run.name}](.)" in index_text(run)


def test_a_readme_that_is_not_an_index_is_kept(folder: Path) -> None:
    (folder / "README.md").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match="not replaced"):
        write_index(folder)
    assert (folder / "README.md").read_text(encoding="utf-8") == "mine"


def test_the_committed_index_is_current() -> None:
    stored = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert stored == index_text(RESULTS), "make it again with: selfnorm report results --index"


def test_the_committed_index_has_a_row_for_each_run_folder_and_no_other() -> None:
    rows = LINK.findall((RESULTS / "README.md").read_text(encoding="utf-8"))
    assert all(Path(where).name == run and (RESULTS / where).is_dir() for run, where in rows)
    folders = {path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("recipe.toml")}
    assert {where for _, where in rows} == folders and len(rows) == len(folders)

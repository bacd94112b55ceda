"""Runs of older versions open: no tokenizer.json, no settings that came later, results with a signature alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from selfnorm.config.toml import read_recipe
from selfnorm.registry.calibrations import CALIBRATIONS
from selfnorm.report.collect import collect
from selfnorm.runs.folder import open_run
from selfnorm.runs.opening import load
from selfnorm.studies.experiment import run_experiment
from selfnorm.studies.plan import BUILT_IN, read_study

from ..conftest import tiny

RESULTS = Path(__file__).parent.parent.parent / "results"
STUDIES = sorted(
    p.relative_to(BUILT_IN).with_suffix("").as_posix() for p in BUILT_IN.rglob("*.toml") if p.name != "expected.toml"
)


def test_a_run_of_0_2_0_opens_and_resumes(text_file: Path, tmp_path: Path) -> None:
    run = run_experiment(tiny(text_file), tmp_path / "r", ["valid.shift"])
    before = load(run.folder).score("the cat saw a dog")
    run.file("tokenizer.json").unlink()
    run.file("manifest.json").unlink()
    text = run.file("recipe.toml").read_text()
    for later in ("tokens", "heads", "memory", "optimizer", "dense_rate"):
        text, count = re.subn(rf"(?m)^{later} = .*\n", "", text)
        assert count == 1, later
    run.file("recipe.toml").write_text(text)
    old = open_run(run.folder)
    assert old.tokenizer == "whitespace" and old.recipe.model.heads == 4
    assert load(run.folder).score("the cat saw a dog") == before
    again = run_experiment(tiny(text_file), tmp_path / "r", ["valid.shift"])
    assert again.tokenizer == "whitespace" and again.file("tokenizer.json").exists()


def test_every_kind_of_committed_folder_opens() -> None:
    collected = collect(RESULTS)
    assert {"none", "shift", "affine", "mlp"} <= {r.calibration for r in collected.records} <= {"none", *CALIBRATIONS}
    assert {"train", "valid", "test"} & {r.parts["split"] for r in collected.records} and collected.others
    for data in ("ptb", "sotu", "mscc", "swbd", "wikitext-2"):
        paths = [p for p in RESULTS.rglob("recipe.toml") if p.parent.name.startswith(data)]
        assert paths and all(read_recipe(path).data.name == data for path in paths)


@pytest.mark.parametrize("name", STUDIES)
def test_every_built_in_study_opens(name: str) -> None:
    assert read_study(name).planned

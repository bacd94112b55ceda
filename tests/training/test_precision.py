"""Products in bf16 and int16: what a user is told where they are slower, or cannot be made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from selfnorm._util.errors import UserError
from selfnorm._util.isa import vector_flags
from selfnorm.config.toml import change
from selfnorm.nn import int16
from selfnorm.studies.experiment import run_experiment

from ..conftest import tiny, write_text


@pytest.mark.parametrize("capability, warned", [("AVX2", True), ("AVX512", False)])
def test_bf16_on_a_cpu_without_such_products_is_warned_of(
    capability: str, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    recipe = change(tiny(write_text(tmp_path / "t.txt", lines=60)), ["training.epochs=1", "training.precision=bf16"])
    run_experiment(change(recipe, ["training.device=cpu"]), tmp_path / "run")
    assert ("slower than float32" in caplog.text) == warned


def trained(folder: Path, *changes: str) -> float:
    folder.mkdir(exist_ok=True)
    recipe = change(
        tiny(write_text(folder / "t.txt", lines=200)), ["training.epochs=1", "training.device=cpu", *changes]
    )
    run_experiment(recipe, folder / "run")
    return float(json.loads((folder / "run" / "history.jsonl").read_text().splitlines()[-1])["perplexity"])


@pytest.mark.skipif(not vector_flags() or int16.library() is None, reason="needs AVX2 and a C compiler")
@pytest.mark.parametrize("criterion", ["criterion.name=nce", "criterion.name=softmax"])
def test_int16_trains_what_float32_trains(criterion: str, tmp_path: Path) -> None:
    found = [
        trained(tmp_path / kind, criterion, "training.batch=16", f"training.precision={kind}")
        for kind in ("float32", "int16")
    ]
    assert found[0] != found[1] == pytest.approx(found[0], rel=0.01)


def test_int16_is_refused_where_it_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that says int16 must not be trained in float32."""
    monkeypatch.setattr(int16, "library", lambda: None)
    with pytest.raises(UserError, match="a C compiler"):
        trained(tmp_path, "training.precision=int16")


@pytest.mark.skipif(not vector_flags() or int16.library() is None, reason="needs AVX2 and a C compiler")
def test_which_products_of_another_encoder_are_int16(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    trained(tmp_path, "model.encoder=gru", "training.precision=int16")
    assert "encoder gru is float32" in caplog.text

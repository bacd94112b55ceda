"""bf16 products: what a user is told where they are slower."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from selfnorm.config.toml import change
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

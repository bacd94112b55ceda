"""A tiny text and a tiny model serve everyone. One thread a process: two fight over two cores."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from selfnorm.config.recipe import Recipe
from selfnorm.config.toml import from_table

torch.set_num_threads(1)

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "bird",
    "tree",
    "saw",
    "liked",
    "chased",
    "on",
    "under",
    "and",
    "then",
    "it",
    "was",
    "here",
    "there",
    "small",
    "big",
    "old",
    "new",
]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared texts of the tests never meet the user's."""
    base = (
        tmp_path_factory.getbasetemp().parent
        if os.environ.get("PYTEST_XDIST_WORKER")
        else tmp_path_factory.getbasetemp()
    )
    monkeypatch.setenv("SELFNORM_CACHE", str(base / "cache"))
    monkeypatch.delenv("SELFNORM_DATA", raising=False)


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def write_text(path: Path, lines: int = 1200, seed: int = 0) -> Path:
    """Sentences in which a word depends on the one before, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    successors = np.random.default_rng(1).integers(len(WORDS), size=(len(WORDS), 3))
    with path.open("w", encoding="utf-8") as handle:
        for _ in range(lines):
            word, sentence = int(rng.integers(len(WORDS))), []
            for _ in range(int(rng.integers(4, 12))):
                sentence.append(WORDS[word])
                word = int(successors[word, rng.integers(3)])
            handle.write(" ".join(sentence) + "\n")
    return path


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    return write_text(tmp_path / "tiny.txt")


def tiny(file: Path, **criterion: object) -> Recipe:
    """A recipe that trains in about a second."""
    return from_table(
        {
            "data": {"name": "tiny", "file": str(file)},
            "model": {"d": 12, "dropout": 0.0, "init": 0.4},
            "criterion": {"name": "nce", "k": 10, **criterion},
            "training": {"epochs": 2, "batch": 8, "steps": 8, "learning_rate": 0.5},
        },
        "test",
    )

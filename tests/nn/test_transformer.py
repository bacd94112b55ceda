"""The transformer: causal, and the same context vectors however a text is divided into windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from selfnorm.config.recipe import Model, Recipe
from selfnorm.config.toml import from_table
from selfnorm.nn.encoders import detach, pick, restart
from selfnorm.nn.transformer import Transformer
from selfnorm.runs.history import read_history
from selfnorm.runs.opening import load
from selfnorm.studies.experiment import run_experiment
from selfnorm.training import trainer

from ..conftest import write_text

V, B, T, MEMORY = 20, 3, 17, 5


@pytest.fixture
def encoder() -> Transformer:
    made = Transformer(V, Model(d=16, layers=2, heads=2, memory=MEMORY, dropout=0.0, encoder="transformer")).double()
    made.initialize(0.5, torch.Generator().manual_seed(0))
    return made


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))


def test_windows_do_not_matter(encoder: Transformer, tokens: torch.Tensor) -> None:
    whole, _ = encoder(tokens, None)
    for size in (1, 2, 4, 9):
        state, pieces = None, []
        for at in range(0, T, size):
            c, state = encoder(tokens[:, at : at + size], state)
            state = detach(state)
            pieces.append(c)
        assert torch.allclose(torch.cat(pieces, dim=1), whole, atol=1e-12)


def test_it_is_causal_and_reaches_only_so_far(encoder: Transformer, tokens: torch.Tensor) -> None:
    whole, _ = encoder(tokens, None)
    changed = tokens.clone()
    changed[:, 8] = (changed[:, 8] + 1) % V
    other, _ = encoder(changed, None)
    same = (whole - other).abs().amax(dim=(0, 2)) == 0
    assert same[:8].all() and not same[8 : 8 + MEMORY + 1].any()
    layers, reach = 2, MEMORY
    assert same[8 + layers * reach + 1 :].all(), "each layer reaches `memory` words further"


def test_states_are_restarted_and_picked_by_stream(encoder: Transformer, tokens: torch.Tensor) -> None:
    _, state = encoder(tokens[:, :6], None)
    fresh = torch.tensor([False, True, False])
    c, _ = encoder(tokens[:, 6:], restart(state, fresh))
    alone, _ = encoder(tokens[1:2, 6:], None)
    assert torch.allclose(c[1:2], alone, atol=1e-12)
    picked, _ = encoder(tokens[[2, 0], 6:], pick(state, torch.tensor([2, 0])))
    assert torch.allclose(picked[1], encoder(tokens[:, 6:], state)[0][0], atol=1e-12)


def recipe(file: Path, epochs: int = 2) -> Recipe:
    return from_table({
        "data": {"name": "tiny", "file": str(file)},
        "model": {"d": 16, "encoder": "transformer", "heads": 2, "memory": 8, "dropout": 0.1, "init": 0.3},
        "criterion": {"name": "nce", "k": 10},
        "training": {"epochs": epochs, "batch": 8, "steps": 8, "learning_rate": 0.5},
    }, "test")  # fmt: skip


def test_it_trains_and_scores_word_by_word_as_it_does_whole_sentences(tmp_path: Path) -> None:
    run = run_experiment(recipe(write_text(tmp_path / "t.txt")), tmp_path / "run", ["test.mlp"])
    history = read_history(run.file("history.jsonl"))
    assert history[-1]["perplexity"] < 8, "21 words, three successors each"
    lm = load(run.folder, calibration="mlp")
    words = ["the", "cat", "saw", "a", "dog"]
    state, total = lm.start(), 0.0
    for word in [*words, "<eos>"]:
        score, state = lm.step(state, word)
        total += score
    assert total == pytest.approx(lm.score(" ".join(words)), abs=1e-4)


def test_training_resumes_exactly_with_adamw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_text(tmp_path / "t.txt")
    whole = run_experiment(recipe(file), tmp_path / "whole", [])
    save, count = trainer.save_checkpoint, 0

    def stop_after_the_first(*given: object) -> None:
        nonlocal count
        save(*given)
        count += 1
        if count == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "save_checkpoint", stop_after_the_first)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(recipe(file), tmp_path / "part", [])
    monkeypatch.setattr(trainer, "save_checkpoint", save)
    part = run_experiment(recipe(file), tmp_path / "part", [])
    one, two = (load_file(r.file("model.safetensors")) for r in (whole, part))
    assert all(np.array_equal(one[name], two[name]) for name in one)

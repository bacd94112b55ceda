"""An addition is one file and one line: a dummy of each kind is registered for a moment and used through the command line."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from selfnorm.calibration.base import Budget, Task
from selfnorm.cli import main
from selfnorm.config.recipe import Data, Model
from selfnorm.criteria.fit import Draw, Fitted
from selfnorm.data.sources.base import Source
from selfnorm.nn.encoders import State
from selfnorm.nn.normalizers import Affine
from selfnorm.nn.output import Output
from selfnorm.registry.calibrations import CALIBRATIONS, CalibrationInfo
from selfnorm.registry.criteria import CRITERIA, CriterionInfo
from selfnorm.registry.datasets import DATASETS, DatasetInfo
from selfnorm.registry.encoders import ENCODERS, EncoderInfo
from selfnorm.registry.formats import FORMATS, FormatInfo
from selfnorm.registry.steps import STEPS, StepInfo
from selfnorm.tasks.nbest.base import Hypothesis, NBest, Reading

from ..conftest import write_text

SMALL = "--set model.d=8 --set model.layers=1 --set training.epochs=1 --set training.batch=4 --set training.steps=5 --set criterion.k=5"


@dataclass(frozen=True)
class Hinge:
    """A criterion of one's own: a fit that draws noise words."""

    draw: Draw

    def __call__(self, output: Output, c: Tensor, window: Any, rng: torch.Generator) -> Fitted:
        m = output.m(window.targets, c)
        drawn = self.draw(output, c, window, rng)
        return Fitted(torch.relu(1 - m.unsqueeze(-1) + drawn.m).sum(-1), drawn=drawn, m=m)


class Half:
    """A calibration of one's own: half of the mean."""

    options = ()

    def fit(self, task: Task) -> tuple[Affine, Budget]:
        g = Affine(task.head.d)
        mean = torch.cat([task.head.log_z(c) for c in task.held_out(10**6)]).mean()
        g.load_state_dict({"a": torch.zeros(task.head.d), "b": mean / 2})
        return g, task.budget

    def load(self, tensors: dict[str, Tensor], head: Output) -> Affine:
        g = Affine(head.d)
        g.load_state_dict(tensors)
        return g

    def work(self, budget: Budget, count: int) -> float:
        return 0


class Window3(nn.Module):
    """An encoder of one's own: the mean of the last three word vectors; its state has one tensor of another shape."""

    def __init__(self, V: int, settings: Model) -> None:
        super().__init__()
        self.d = settings.d
        self.table = nn.Parameter(torch.empty(V, settings.d))
        self.mix = nn.Linear(settings.d, settings.d)

    def initialize(self, init: float, rng: torch.Generator) -> None:
        with torch.no_grad():
            for p in self.parameters():
                p.uniform_(-init, init, generator=rng)

    def forward(self, tokens: Tensor, state: State | None, rng: torch.Generator | None = None) -> tuple[Tensor, State]:
        x = torch.nn.functional.embedding(tokens, self.table, sparse=True)
        before = state[0][0].transpose(0, 1) if state else x.new_zeros(len(x), 2, self.d)
        seen = torch.cat([before, x], dim=1)
        c = self.mix((seen[:, 2:] + seen[:, 1:-1] + seen[:, :-2]) / 3)
        return c, [(seen[:, -2:].transpose(0, 1),)]


def counting(data: Data) -> Source:
    """A data set of one's own."""
    lines = [f"{i % 7} follows {i % 5}" for i in range(600)]
    return Source({split: (lambda: iter(lines)) for split in ("train", "valid", "test")}, "counting-1")


class Pipes:
    """A list format of one's own: name | score | words."""

    several = True

    def read(self, path: Path, reading: Reading) -> Iterator[NBest]:
        for line in path.read_text().splitlines():
            name, score, words = line.split("|")
            yield NBest(name, (Hypothesis(tuple(words.split()), float(score)),))

    def write(self, nbest: NBest, order: Sequence[int], totals: Any, lm: Any) -> Iterator[str]:
        yield from (f"{nbest.name}|{totals[i]:.2f}" for i in order)


def vocabulary(run: Any, corpus: Any, step: str, kind: str) -> dict[str, Any]:
    """A study step of one's own."""
    return {"kind_of_result": "vocabulary", "row": {"V": len(run.vocab)}, "signature": ""}


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> str:
    """The code above as a module that a registry can name."""
    module = types.ModuleType("my_plugin")
    for thing in (Hinge, Half, Window3, counting, Pipes, vocabulary):
        setattr(module, thing.__name__, thing)
    monkeypatch.setitem(sys.modules, "my_plugin", module)
    return "my_plugin"


def train(tmp_path: Path, *more: str) -> Path:
    write_text(tmp_path / "t.txt", lines=300)
    text = [] if any(word.startswith("data.name") for word in more) else ["--text", str(tmp_path / "t.txt")]
    assert main(["train", "--to", str(tmp_path / "r"), *text, *SMALL.split(), *more]) == 0
    return tmp_path / "r"


def test_a_criterion(plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CRITERIA, "hinge", CriterionInfo("hinge", "no", f"{plugin}:Hinge", alone="no", draws=True))
    run = train(tmp_path, "--criterion", "hinge")
    assert main(["measure", str(run), "--json"]) == 0
    assert main(["score", str(run), str(tmp_path / "t.txt")]) == 2, "it does not pin log Z"
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "r.html")]) == 0


def test_a_calibration(
    plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(CALIBRATIONS, "half", CalibrationInfo("half", f"{plugin}:Half", per_context=False))
    run = train(tmp_path)
    assert main(["calibrate", str(run), "--with", "half", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["valid_after"]["mu_z"] == pytest.approx(facts["valid_before"]["mu_z"] / 2, abs=1e-4)
    assert main(["measure", str(run)]) == 0 and (run / "test.half.json").exists()
    assert main(["score", str(run), str(tmp_path / "t.txt")]) == 0


def test_an_encoder(
    plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(ENCODERS, "window3", EncoderInfo(f"{plugin}:Window3"))
    run = train(tmp_path, "--set", "model.encoder=window3")
    assert main(["score", str(run), str(tmp_path / "t.txt")]) == 0
    assert (
        main(
            [
                "train",
                "--to",
                str(run),
                "--text",
                str(tmp_path / "t.txt"),
                *SMALL.replace("epochs=1", "epochs=2").split(),
                "--set",
                "model.encoder=window3",
            ]
        )
        == 0
    )
    capsys.readouterr()
    assert main(["export", str(run)]) == 2
    assert "can be exported" in capsys.readouterr().err


def test_a_data_set(plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DATASETS, "counting", DatasetInfo(f"{plugin}:counting", 2400, 10))
    run = train(tmp_path, "--set", "data.name=counting")
    assert main(["measure", str(run)]) == 0
    assert main(["data", "prepare", "counting"]) == 0


def test_a_list_format(
    plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(FORMATS, "pipes", FormatInfo(f"{plugin}:Pipes"))
    (tmp_path / "l").write_text("a|-1|the cat\nb|-2|a dog\n")
    run = train(tmp_path)
    capsys.readouterr()
    assert main(["rescore", str(run), str(tmp_path / "l"), "--format", "pipes", "--print", "nbest"]) == 0
    assert [line.split("|")[0] for line in capsys.readouterr().out.split()] == ["a", "b"]


def test_a_study_step(plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STEPS, "vocabulary", StepInfo(f"{plugin}:vocabulary"))
    run = train(tmp_path, "--then", "vocabulary")
    assert json.loads((run / "vocabulary.json").read_text())["row"]["V"] > 5


def test_an_unknown_name_suggests_the_nearest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_text(tmp_path / "t.txt", lines=300)
    for option, told in (("criterion.name=ncee", 'Did you mean "nce"'), ("model.encoder=lsmt", 'Did you mean "lstm"')):
        assert main(["train", "--to", str(tmp_path / "x"), "--text", str(tmp_path / "t.txt"), "--set", option]) == 2
        assert told in capsys.readouterr().err


def test_a_module_of_the_users_is_found_through_the_environment(
    plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "registers_it.py").write_text(
        "from selfnorm.registry.encoders import ENCODERS, EncoderInfo\n"
        f'ENCODERS["from_plugin"] = EncoderInfo("{plugin}:Window3")\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SELFNORM_PLUGINS", "registers_it")
    try:
        assert main(["score", str(train(tmp_path, "--set", "model.encoder=from_plugin")), str(tmp_path / "t.txt")]) == 0
        monkeypatch.setenv("SELFNORM_PLUGINS", "no_such_module")
        assert (
            main(["train", "--to", str(tmp_path / "x"), "--text", str(tmp_path / "t.txt"), "--criterion", "huh"]) == 2
        )
        assert "no_such_module" in capsys.readouterr().err
    finally:
        ENCODERS.pop("from_plugin", None)

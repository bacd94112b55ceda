"""Devices without a GPU: nothing is left to the default device, nothing mixes devices, and a step waits for the device once.

The default device is "meta" and the model is on the CPU: whatever forgets its device is created on "meta" and is found at
once, when it is created or when it meets anything else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import selfnorm
from selfnorm._util import devices
from selfnorm._util.errors import UserError
from selfnorm.cli import main
from selfnorm.config.recipe import CriterionSettings, Model, Training
from selfnorm.config.toml import change, read_recipe
from selfnorm.criteria.build import make_criterion
from selfnorm.data.windows import Windows
from selfnorm.nn.model import LanguageModel, build
from selfnorm.registry.calibrations import CALIBRATIONS
from selfnorm.registry.criteria import CRITERIA
from selfnorm.studies.experiment import run_experiment
from selfnorm.training.loop import Place, train

from .conftest import tiny, write_text

V = 40


class OneDevice(TorchDispatchMode):
    """Every operation has its tensors on `device`, and makes no others; nothing is copied between devices here."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves((args, kwargs, result)):
            if isinstance(tensor, Tensor) and tensor.device.type != self.device.type:
                raise AssertionError(f"{func} with a tensor on {tensor.device}, not {self.device}")
        self.operations += 1
        return result


@contextmanager
def no_default_device(device: torch.device = devices.HOST) -> Iterator[OneDevice]:
    torch.set_default_device("meta")
    try:
        with OneDevice(device) as mode:
            yield mode
    finally:
        torch.set_default_device(None)


def test_a_forgotten_device_is_found() -> None:
    with pytest.raises(AssertionError, match="meta"), no_default_device():
        torch.zeros(3)
    table = torch.zeros(4, 2)
    with pytest.raises((AssertionError, RuntimeError)), no_default_device():
        table[torch.tensor([1, 2])]


def steps_of(name: str, device: torch.device, count: int = 3, **settings: Any) -> LanguageModel:
    """A few training steps with dropout, on small random text."""
    ids = np.random.default_rng(0).integers(V, size=4000)
    model_settings = Model(d=8, dropout=0.3, encoder=settings.pop("encoder", "lstm"), memory=6)
    training = Training(epochs=1, batch=4, steps=5, precision=settings.pop("precision", "float32"))
    info, rng = CRITERIA[name], settings.pop("rng", None) or devices.make_rng(1)
    criterion = make_criterion(
        CriterionSettings(name=name, k=6, **settings), np.bincount(ids, minlength=V), ids, device=device
    )
    model = build(model_settings, V, rng, info.output, info.normalizer).to(device)
    criterion.start(model.output)
    windows = Windows(ids[: 1 + 4 * 5 * count], 4, 5, device)
    rng = rng if device.type == "cpu" else devices.make_rng(1, device)
    for _ in train(model, criterion, windows, training, rng, Place()):
        pass
    return model


CASES: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in CRITERIA]
CASES += [("nce", {"shared": "step"}), ("nce", {"shared": "token"}), ("nce", {"shared": "token", "noise": "bigram"})]
CASES += [("nce", {"noise": "log_uniform"}), ("softmax", {"encoder": "gru"}), ("softmax", {"encoder": "transformer"})]
CASES += [("nce_r", {"subset": "contexts"}), ("infrequent", {"subset": "windows"}), ("devlin", {"precision": "bf16"})]


def label(case: tuple[str, dict[str, Any]]) -> str:
    return "-".join([case[0], *map(str, case[1].values())])


@pytest.mark.parametrize("case", CASES, ids=label)
def test_training_steps_name_the_device_of_everything(case: tuple[str, dict[str, Any]]) -> None:
    with no_default_device() as mode:
        steps_of(case[0], devices.HOST, **case[1])
    assert mode.operations > 100


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run trained, validated and measured without a default device, as `selfnorm train` does it."""
    base = tmp_path_factory.mktemp("devices")
    text = write_text(base / "tiny.txt", lines=400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SELFNORM_CACHE", str(base / "cache"))
        with no_default_device():
            run_experiment(change(tiny(text), ["training.epochs=1"]), base / "run", ("valid", "test.shift"))
        yield base


@pytest.mark.parametrize("kind", CALIBRATIONS)
def test_calibrating_measuring_and_scoring_name_the_device_of_everything(kind: str, run_folder: Path) -> None:
    with no_default_device() as mode:
        run = selfnorm.open_run(run_folder / "run", device="cpu")
        run.calibrate(kind, contexts=600, passes=1, hidden=(8,), frequent=4, rank=4, top=4)
        assert np.isfinite(run.measure("valid").sigma_z)
        assert len(run.tokens("valid")["m"])
        for normalized in (False, True):
            lm = selfnorm.load(run_folder / "run", normalized, device="cpu", unk_penalty=-1.0)
            assert np.isfinite(lm.score_batch(["the cat saw", "", "a dog"])).all()
            assert lm.tokens(["the cat", ""])["m"].shape == (4,)
            score, after = lm.step(lm.start(), "cat")
            assert np.isfinite(score) and np.isfinite(lm.step(after, "saw")[0])
            for exact in ("none", "1best", "nbest", "all"):
                lists = [[("the cat saw", -1.0), ("the dog saw", -1.1), ("a cat", -3.0)], [("it was", -1.0)]]
                assert [r.best >= 0 for r in selfnorm.rescore(lm, lists, exact=exact)] == [True, True]
    assert mode.operations > 1000


def test_a_head_of_somebody_else_is_calibrated_on_its_device() -> None:
    rng = torch.Generator().manual_seed(0)
    weight, contexts = torch.randn(60, 8, generator=rng), torch.randn(700, 8, generator=rng)
    with no_default_device():
        head = selfnorm.Output.from_rows(weight)
        for kind in ("auto", *CALIBRATIONS):
            g = selfnorm.fit_normalizer(head, contexts, kind, progress=False, passes=1, hidden=(8,), frequent=4, top=4)
            assert np.isfinite(g.held_out.sigma_z)


def test_commands_name_the_device_of_everything(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, lists = run_folder / "run", run_folder / "lists.jsonl"
    row = {
        "id": "u1",
        "hyps": [{"text": "the cat saw", "score": -1.0}, {"text": "a dog", "score": -2.0}],
        "ref": "a dog",
    }
    lists.write_text(json.dumps(row) + "\n")
    (run_folder / "text.txt").write_text("the cat saw\na dog\n")
    (run_folder / "q.csv").write_text("id,question,a),b)\n1,the _____ saw,cat,dog\n")
    commands = [
        ["measure", str(folder), "--split", "valid"],
        ["calibrate", str(folder), "--with", "affine"],
        ["score", str(folder), str(run_folder / "text.txt"), "--table", str(run_folder / "t.csv")],
        ["rescore", str(folder), str(lists)],
        ["verdict", str(folder), str(lists)],
        ["complete", str(folder), str(run_folder / "q.csv")],
        ["export", str(folder)],
        ["bench", "scoring", "--d", "8", "--vocab", "50", "--rounds", "1", "--threads", "1"],
    ]
    for command in commands:
        with no_default_device():
            assert main([*command, "--device", "cpu"]) == 0, (command, capsys.readouterr().err)


# Host reads

READS = {"_local_scalar_dense", "nonzero", "_coalesce", "_unique2", "unique_consecutive", "masked_select", "equal"}
METHODS = {"tolist", "cpu"}  # numpy() follows one of these on a device, or fails


class CountReads(TorchDispatchMode):
    """Operations that make the host wait for a device: numbers that are read, and results whose size depends on numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        bool_index = name == "index" and any(t is not None and t.dtype == torch.bool for t in args[1])
        if name in READS or bool_index:
            self.reads.append(name)
        return func(*args, **(kwargs or {}))


class CountMethods(TorchFunctionMode):
    def __init__(self, reads: list[str]) -> None:
        super().__init__()
        self.reads = reads

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in METHODS and args[0].numel():
            self.reads.append(func.__name__)
        return func(*args, **(kwargs or {}))


def reads_per_step(name: str, count: int, **settings: Any) -> float:
    with CountReads() as mode, CountMethods(mode.reads):
        steps_of(name, devices.HOST, count, **settings)
    return len(mode.reads) / count


@pytest.mark.parametrize("case", CASES, ids=label)
def test_a_step_reads_from_the_device_at_most_twice(
    case: tuple[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: the code for devices other than the CPU, run on the CPU. Losses and norms are read every 16 steps."""
    monkeypatch.setattr(devices, "is_host", lambda device: False)
    few, many = (reads_per_step(case[0], count, **case[1]) * count for count in (16, 32))
    assert (many - few) / 16 <= 2


def test_nce_reads_once_in_sixteen_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reads_per_step("nce", 32) >= 1
    monkeypatch.setattr(devices, "is_host", lambda device: False)
    few, many = (reads_per_step("nce", count) * count for count in (16, 32))
    assert many - few == 1


@pytest.mark.parametrize("name", ["nce", "softmax", "nce_r", "devlin", "classes", "adaptive"])
def test_the_steps_of_other_devices_are_those_of_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums by row, clipping and updates without reading anything give the CPU's weights up to rounding."""
    one, rng = steps_of(name, devices.HOST, 40), devices.make_rng(1)
    monkeypatch.setattr(devices, "is_host", lambda device: False)
    two = steps_of(name, devices.HOST, 40, rng=rng)
    for (key, a), b in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-5), key


def test_bf16_products_learn_what_float32_learns() -> None:
    one, two = steps_of("softmax", devices.HOST, 40), steps_of("softmax", devices.HOST, 40, precision="bf16")
    difference = (one.output.bias - two.output.bias).abs().max()
    assert 0 < difference < 0.05 * one.output.bias.std()


# Names


def test_a_device_that_is_not_here_is_refused_with_those_that_are() -> None:
    with pytest.raises(UserError, match="finds cpu"):
        devices.choose("cuda:99")
    with pytest.raises(UserError, match="choose auto, cpu"):
        read_recipe(None, ["training.device=gpu"])
    with pytest.raises(UserError, match="float32, bf16 or int16"):
        read_recipe(None, ["training.precision=fp8"])


def test_a_run_of_a_device_that_is_not_here_opens_on_another(run_folder: Path) -> None:
    path = run_folder / "run" / "recipe.toml"
    path.write_text(path.read_text().replace('device = "auto"', 'device = "cuda:7"'))
    assert selfnorm.load(run_folder / "run", trust=True).device == devices.choose("auto")
    with pytest.raises(UserError, match="cuda:7"):
        selfnorm.load(run_folder / "run", device="cuda:7")


# With a GPU


@pytest.fixture
def gpu() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device here")
    return torch.device("cuda", 0)


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=label)
def test_training_on_a_gpu_gives_the_cpus_first_steps(case: tuple[str, dict[str, Any]], gpu: torch.device) -> None:
    with OneDevice(gpu):
        model = steps_of(case[0], gpu, 16, **case[1])
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())
    assert devices.device_of(model).type == "cuda"


@pytest.mark.gpu
@pytest.mark.parametrize("kind", CALIBRATIONS)
def test_a_run_trained_on_the_cpu_is_calibrated_and_scored_on_a_gpu(
    kind: str, run_folder: Path, gpu: torch.device
) -> None:
    run = selfnorm.open_run(run_folder / "run", device="cuda")
    run.calibrate(kind, contexts=600, passes=1, hidden=(8,), frequent=4, rank=4, top=4)
    sentences = ["the cat saw", "a dog", "it was here"]
    here, there = (selfnorm.load(run_folder / "run", device=d).score_batch(sentences) for d in ("cpu", "cuda"))
    assert np.allclose(here, there, atol=1e-2)

"""Training: it learns, it resumes bit for bit after SIGKILL, and it stops at NaN."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from selfnorm._util.change import LOCK, Change
from selfnorm._util.errors import Busy, Diverged, UserError
from selfnorm._util.files import holding
from selfnorm.config.recipe import CriterionSettings, Model, Recipe
from selfnorm.config.signature import parse_signature
from selfnorm.config.toml import write_recipe
from selfnorm.criteria.build import make_criterion
from selfnorm.data.corpus import open_corpus
from selfnorm.data.windows import Window, Windows
from selfnorm.evaluation.measurement import Measurement, read_measurement
from selfnorm.nn.model import LanguageModel, build
from selfnorm.nn.normalizers import Affine, Mlp
from selfnorm.registry.criteria import CRITERIA
from selfnorm.runs import evaluate
from selfnorm.runs.calibrate import calibrate_run
from selfnorm.runs.calibrations import save_calibration
from selfnorm.runs.evaluate import measure_split
from selfnorm.runs.folder import changing, derived_names, open_run, stamp
from selfnorm.runs.history import read_history
from selfnorm.runs.loading import load_model
from selfnorm.runs.opening import open_with_text
from selfnorm.runs.weights import fill, fresh_model, tensors_of
from selfnorm.studies.experiment import run_experiment as run
from selfnorm.training import checkpoint
from selfnorm.training import trainer as drive
from selfnorm.training.loop import Place, train
from selfnorm.training.optimizer import Optimizer

from ..conftest import tiny, write_text


@pytest.mark.parametrize("name", CRITERIA)
def test_every_criterion_trains_and_is_measured(name: str, text_file: Path, tmp_path: Path) -> None:
    made = run(tiny(text_file, name=name), tmp_path / name)
    history = [json.loads(line) for line in (made.folder / "history.jsonl").read_text().splitlines()]
    assert len(history) == 2 and history[1]["perplexity"] < len(made.vocab)
    found = read_measurement(made.folder / "valid.json")
    assert found.signature.startswith(f"data:tiny|split:valid|criterion:{name}|")
    for file in ("recipe.toml", "vocab.txt", "model.safetensors", "best.safetensors", "env.json"):
        assert (made.folder / file).exists()


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_a_run_killed_at_any_point_ends_with_the_identical_model(text_file: Path, tmp_path: Path) -> None:
    recipe = tiny(text_file, name="nce_r")
    recipe = replace(recipe, training=replace(recipe.training, epochs=6, checkpoint_minutes=0.0005))
    run(recipe, tmp_path / "whole")
    write_recipe(tmp_path / "r.toml", recipe)
    command = [
        sys.executable,
        "-m",
        "selfnorm",
        "train",
        str(tmp_path / "r.toml"),
        "--to",
        str(tmp_path / "killed"),
    ]
    kills = 0
    for _ in range(40):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = _stamp(tmp_path / "killed")
        while process.poll() is None and (_stamp(tmp_path / "killed") == before or kills >= 3):
            time.sleep(0.01)
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    assert kills >= 1 and process.returncode == 0
    one, two = weights(tmp_path / "whole"), weights(tmp_path / "killed")
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
    assert not list((tmp_path / "killed").glob(".*.part")), "what the kills left was removed"


def _stamp(folder: Path) -> float:
    path = folder / "checkpoint.safetensors"
    return path.stat().st_mtime_ns if path.exists() else 0


def test_a_longer_run_goes_on_from_a_shorter_one(text_file: Path, tmp_path: Path) -> None:
    short = tiny(text_file)
    long = replace(short, training=replace(short.training, epochs=4))
    run(long, tmp_path / "at once")
    run(short, tmp_path / "in two")
    run(long, tmp_path / "in two")
    one, two = weights(tmp_path / "at once"), weights(tmp_path / "in two")
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_validating_seldom_changes_nothing_but_the_history(text_file: Path, tmp_path: Path) -> None:
    often = tiny(text_file)
    often = replace(often, training=replace(often.training, epochs=5))
    seldom = replace(often, training=replace(often.training, validate_epochs=2))
    run(often, tmp_path / "often")
    run(seldom, tmp_path / "seldom")
    one, two = weights(tmp_path / "often"), weights(tmp_path / "seldom")
    assert all(torch.equal(one[name], two[name]) for name in one)
    epochs = [line["epoch"] for line in read_history(tmp_path / "seldom" / "history.jsonl")]
    assert epochs == [2, 4, 5]  # the last is always validated


def test_a_training_shortened_to_an_epoch_that_was_not_validated_validates_it(text_file: Path, tmp_path: Path) -> None:
    recipe = tiny(text_file)
    recipe = replace(recipe, training=replace(recipe.training, epochs=6, validate_epochs=2, checkpoint_minutes=60.0))
    steps = []

    class Stopped(Exception):
        pass

    def stop(*arguments: object, call=drive.save_checkpoint) -> None:  # type: ignore[no-untyped-def]
        call(*arguments)
        steps.append(1)
        if len(steps) == 3:
            raise Stopped

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(drive, "save_checkpoint", stop)
        run(recipe, tmp_path / "run")
    shorter = replace(recipe, training=replace(recipe.training, epochs=3))
    for _ in range(2):
        run(shorter, tmp_path / "run")
        assert [line["epoch"] for line in read_history(tmp_path / "run" / "history.jsonl")] == [2, 3]
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_another_recipe_in_the_same_folder_is_refused(text_file: Path, tmp_path: Path) -> None:
    run(tiny(text_file), tmp_path / "run")
    with pytest.raises(UserError, match="another recipe"):
        run(tiny(text_file, name="softmax"), tmp_path / "run")


def test_nan_stops_with_the_step_and_what_to_try(text_file: Path, tmp_path: Path) -> None:
    recipe = tiny(text_file, name="andreas", alpha=1e-9)
    recipe = replace(recipe, training=replace(recipe.training, learning_rate=1e9, clip=1e30))
    with pytest.raises(Diverged, match=r"epoch \d+, window \d+ of \d+.*learning_rate"):
        run(recipe, tmp_path / "run")


def test_a_text_shorter_than_a_window_is_refused(text_file: Path, tmp_path: Path) -> None:
    recipe = tiny(text_file)
    with pytest.raises(UserError, match="too few for one window"):
        run(replace(recipe, training=replace(recipe.training, batch=400, steps=400)), tmp_path / "run")


def test_tied_tables_are_one_parameter_and_survive_saving(text_file: Path, tmp_path: Path) -> None:
    recipe = tiny(text_file)
    made = run(replace(recipe, model=replace(recipe.model, tied=True)), tmp_path / "run")
    model = load_model(open_run(made.folder))
    assert model.output.weight is model.encoder.table
    assert "output.weight" not in weights(made.folder)


def test_two_trainers_cannot_share_a_folder(text_file: Path, tmp_path: Path) -> None:
    from selfnorm._util.files import locked

    with locked(tmp_path / "run"), pytest.raises(UserError, match="another process"):
        run(tiny(text_file), tmp_path / "run")


def test_a_longer_run_forgets_what_was_measured_on_replaced_weights(text_file: Path, tmp_path: Path) -> None:
    short = tiny(text_file)
    run(short, tmp_path / "run", ["valid", "valid.shift"])
    before = read_measurement(tmp_path / "run" / "valid.json")
    run(replace(short, training=replace(short.training, epochs=6)), tmp_path / "run", ["valid", "valid.shift"])
    after = read_measurement(tmp_path / "run" / "valid.json")
    assert after.perplexity < before.perplexity and "epochs:6" in after.signature
    assert abs(read_measurement(tmp_path / "run" / "valid.shift.json").mu_z) < 1e-4


def test_a_changed_text_is_refused_on_resuming(text_file: Path, tmp_path: Path) -> None:
    run(tiny(text_file), tmp_path / "run")
    text_file.write_text(text_file.read_text().replace("cat", "cow"))
    with pytest.raises(UserError, match=r"text of .* has changed"):
        run(tiny(text_file), tmp_path / "run")


def test_a_missing_last_model_is_written_again(text_file: Path, tmp_path: Path) -> None:
    run(tiny(text_file), tmp_path / "run")
    before = weights(tmp_path / "run")
    last = tmp_path / "run" / "model.safetensors"
    last.unlink()
    run(tiny(text_file), tmp_path / "run")
    assert all(torch.equal(before[name], t) for name, t in weights(tmp_path / "run").items())
    save_file({name: torch.zeros_like(t) for name, t in before.items()}, last)  # as if of a shorter training
    os.utime(last, (0, 0))
    run(tiny(text_file), tmp_path / "run")
    assert all(torch.equal(before[name], t) for name, t in weights(tmp_path / "run").items())


@pytest.mark.parametrize(
    ("settings", "squash", "says"),
    [
        ({"name": "negative", "alpha": 1.0}, False, "wrong sum"),
        ({"name": "snis"}, True, "squash = false"),
        ({"name": "negative", "noise": "bigram", "shared": "token"}, False, "bigram noise does not allow"),
        ({"name": "nce", "noise": "bigram"}, False, 'shared = "token"'),
        ({"name": "nce_batch", "power": 0.5}, False, "from the batch"),
        ({"name": "adaptive", "alpha": 1.0}, False, "normalized by construction"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_before_training(
    settings: dict[str, object], squash: bool, says: str, text_file: Path, tmp_path: Path
) -> None:
    recipe = tiny(text_file, **settings)
    with pytest.raises(UserError, match=says):
        run(replace(recipe, model=replace(recipe.model, squash=squash)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_damaged_run_folders_are_named(text_file: Path, tmp_path: Path) -> None:
    from selfnorm.runs.opening import load as open_scorer

    made = run(tiny(text_file), tmp_path / "run", ["valid", "valid.shift"])
    made.file("manifest.json").unlink()  # with one, the manifest names them first (tests/runs/test_manifest.py)
    good = (made.folder / "calibration.json").read_text()
    for wrong in ("{}", "[]", '{"kind": "foo"}', ""):
        (made.folder / "calibration.json").write_text(wrong)
        with pytest.raises(UserError, match=r"calibration\.json"):
            open_scorer(made.folder)
    (made.folder / "calibration.json").write_text(good)
    weights_file = made.folder / "best.safetensors"
    raw = weights_file.read_bytes()
    weights_file.write_bytes(raw[:-400] + b"\xff" * 400)
    with pytest.raises(UserError, match="not finite"):
        open_scorer(made.folder)
    weights_file.write_bytes(raw[:-400])
    with pytest.raises(UserError, match="not a whole safetensors file"):
        open_scorer(made.folder)
    weights_file.write_bytes(raw)
    (made.folder / "vocab.txt").write_text((made.folder / "vocab.txt").read_text().replace("dog\t", "cat\t"))
    with pytest.raises(UserError, match="each word once"):
        open_scorer(made.folder)


def test_a_finished_run_without_its_checkpoint_is_left_as_it_is(text_file: Path, tmp_path: Path) -> None:
    recipe = tiny(text_file)
    made = run(recipe, tmp_path / "run", ["valid", "valid.shift"])
    (made.folder / "checkpoint.safetensors").unlink()
    before = {path.name: path.read_bytes() for path in made.folder.glob("*.safetensors")}
    run(recipe, made.folder, ["valid", "valid.shift", "test"])
    assert before.items() <= {path.name: path.read_bytes() for path in made.folder.glob("*.safetensors")}.items()
    assert (made.folder / "test.json").exists()
    with pytest.raises(UserError, match="2 of 4 epochs but has no checkpoint"):
        run(replace(recipe, training=replace(recipe.training, epochs=4)), made.folder)


def test_a_run_is_not_made_shorter_than_it_is(text_file: Path, tmp_path: Path) -> None:
    recipe = tiny(text_file)
    run(recipe, tmp_path / "run")
    with pytest.raises(UserError, match="trained into epoch 2"):
        run(replace(recipe, training=replace(recipe.training, epochs=1)), tmp_path / "run")


def stopped(recipe: Recipe, folder: Path, monkeypatch: pytest.MonkeyPatch, windows: int) -> None:
    """Train until so many windows are done, with a checkpoint after each, then stop as Ctrl-C would."""

    def short(*given: object) -> Iterator[Place]:
        for count, place in enumerate(train(*given), start=1):
            yield place
            if count == windows:
                raise KeyboardInterrupt

    monkeypatch.setattr(drive, "train", short)
    eager = replace(recipe, training=replace(recipe.training, checkpoint_minutes=1e-9))
    with pytest.raises(KeyboardInterrupt):
        run(eager, folder)
    monkeypatch.setattr(drive, "train", train)


def test_a_run_that_is_further_than_its_history_is_not_made_shorter(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before its first validation: the checkpoint alone knows the epoch, and a refused command changes nothing."""
    short = tiny(text_file)
    recipe = replace(short, training=replace(short.training, epochs=6, validate_epochs=6))
    per_epoch = len(Windows(open_corpus(recipe.data)["train"], recipe.training.batch, recipe.training.steps))
    stopped(recipe, tmp_path / "run", monkeypatch, 3 * per_epoch + 1)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    with pytest.raises(UserError, match=r"trained into epoch 4; training\.epochs = 2 is fewer"):
        run(short, tmp_path / "run")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()} == before


def test_another_tokenizer_is_not_called_another_text(text_file: Path, tmp_path: Path) -> None:
    recipe = tiny(text_file)
    run(recipe, tmp_path / "run")
    with pytest.raises(UserError, match="is tokenized as whitespace, not words"):
        run(replace(recipe, data=replace(recipe.data, tokens="words")), tmp_path / "run")


def test_numbers_of_an_unfinished_run_say_so(text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = replace(tiny(text_file), training=replace(tiny(text_file).training, epochs=3))
    made = run(tiny(text_file), tmp_path / "whole")
    per_epoch = len(Windows(open_corpus(recipe.data)["train"], recipe.training.batch, recipe.training.steps))
    stopped(recipe, tmp_path / "run", monkeypatch, per_epoch + 1)
    opened = open_run(tmp_path / "run")
    found = measure_split(opened, open_corpus(recipe.data), "valid")
    assert "|epochs:1 of 3|" in found.signature
    assert "|epochs:2|" in measure_split(made, open_corpus(recipe.data), "valid").signature


def test_seconds_survive_a_stop(text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny(text_file)
    stopped(recipe, tmp_path / "run", monkeypatch, 3)
    path = tmp_path / "run" / "checkpoint.safetensors"
    before = checkpoint.load_checkpoint(
        open_run(tmp_path / "run"),
        model := load_fresh(tmp_path / "run"),
        Optimizer(model, recipe.training),
        torch.Generator(),
    )
    assert path.exists() and before.seconds > 0 and not before.history
    run(recipe, tmp_path / "run")
    first = json.loads((tmp_path / "run" / "history.jsonl").read_text().splitlines()[0])
    assert first["seconds"] > round(before.seconds, 2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_training_has_saved_its_last_step(
    number: int, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes in the middle of a step: that step is made and saved, and the training resumes behind it."""
    recipe = replace(tiny(text_file), training=replace(tiny(text_file).training, checkpoint_minutes=1000.0))
    step, count = Optimizer.apply, 0

    def interrupted(self: Optimizer, *given: object) -> None:
        nonlocal count
        count += 1
        if count == 3:
            signal.raise_signal(number)
        step(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Optimizer, "apply", interrupted)
        before = signal.signal(number, signal.default_int_handler)  # the shell may have had it ignored
        with pytest.raises(KeyboardInterrupt):
            run(recipe, tmp_path / "run")
        signal.signal(number, before)
    opened = open_run(tmp_path / "run")
    model = load_fresh(opened.folder)
    at = checkpoint.load_checkpoint(opened, model, Optimizer(model, recipe.training), torch.Generator())
    assert (at.place.window, count) == (3, 3)
    whole, resumed = run(recipe, tmp_path / "whole"), run(recipe, opened.folder)
    weights = [made.file("model.safetensors").read_bytes() for made in (whole, resumed)]
    assert weights[0] == weights[1]


def load_fresh(folder: Path) -> LanguageModel:
    opened = open_run(folder)
    return fresh_model(opened.recipe, len(opened.vocab))


def test_what_was_found_about_replaced_weights_is_not_kept(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run(tiny(text_file), tmp_path / "run", [])
    corpus, best = open_corpus(made.recipe.data), made.folder / "best.safetensors"
    measured = evaluate.measure

    def meanwhile(*given: object, **named: object) -> Measurement:
        found = measured(*given, **named)
        best.write_bytes(best.read_bytes())  # what a training does when it has found better weights
        return found

    monkeypatch.setattr(evaluate, "measure", meanwhile)
    with pytest.raises(UserError, match="replaced"):
        measure_split(made, corpus, "valid")
    assert not (made.folder / "valid.json").exists()


def test_nothing_of_the_old_weights_stands_beside_new_ones(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No calibration can come in while better weights are written; one of the weights before is refused afterwards."""
    save, tried = drive.save_weights, []

    def slowly(new: Change, name: str, model: LanguageModel) -> None:
        with pytest.raises(Busy), holding(new.folder / LOCK, 0, ""):
            pass
        tried.append(name)
        save(new, name, model)

    monkeypatch.setattr(drive, "save_weights", slowly)
    made = run(tiny(text_file), tmp_path / "run", ["valid.shift"])
    before, recipe = stamp(made), tiny(text_file)
    run(replace(recipe, training=replace(recipe.training, epochs=3)), made.folder, [])
    assert tried[-2:] == ["best.safetensors", "model.safetensors"] and not list(made.folder.glob("calibration*"))
    with pytest.raises(UserError, match="replaced"):
        save_calibration(made, "shift", Affine(12), {}, before)
    assert not list(made.folder.glob("calibration*")) and not list(made.folder.glob(".*.new"))


def test_a_measurement_of_a_replaced_calibration_is_not_kept(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run(tiny(text_file), tmp_path / "run", ["valid.shift"])
    corpus, measured = open_corpus(made.recipe.data), evaluate.measure

    def meanwhile(*given: object, **named: object) -> Measurement:
        calibrate_run(made, corpus, "shift")
        return measured(*given, **named)

    monkeypatch.setattr(evaluate, "measure", meanwhile)
    with pytest.raises(UserError, match="replaced"):
        measure_split(made, corpus, "valid", "shift")


def test_calibrating_again_forgets_what_the_old_one_gave(text_file: Path, tmp_path: Path) -> None:
    made = run(tiny(text_file), tmp_path / "run", ["valid.shift", "valid.affine"])
    calibrate_run(made, open_corpus(made.recipe.data), "shift")
    assert not (made.folder / "valid.shift.json").exists() and (made.folder / "valid.affine.json").exists()


def test_measuring_steps_do_not_change_what_scoring_uses(text_file: Path, tmp_path: Path) -> None:
    made = run(tiny(text_file), tmp_path / "run", ["valid.affine", "valid.shift"])
    assert open_run(made.folder).in_use == "none"
    calibrate_run(made, open_corpus(made.recipe.data), "affine")
    run(tiny(text_file), tmp_path / "run", ["valid.mlp"])
    assert open_run(made.folder).in_use == "affine" and (made.folder / "valid.mlp.json").exists()


def test_a_folder_of_texts_is_written_down_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "texts").mkdir()
    for split in ("train", "valid", "test"):
        write_text(tmp_path / "texts" / f"{split}.txt")
    monkeypatch.chdir(tmp_path)
    recipe = tiny(Path("unused"))
    run(replace(recipe, data=replace(recipe.data, name="own", file="", folder="texts")), tmp_path / "run")
    monkeypatch.chdir("/")
    assert open_with_text(tmp_path / "run")[1].name == "own"


def test_a_text_may_move_between_two_calls(text_file: Path, tmp_path: Path) -> None:
    recipe = tiny(text_file)
    run(recipe, tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    there = text_file.rename(tmp_path / "elsewhere" / text_file.name)
    moved = replace(recipe, data=replace(recipe.data, folder=str(there.parent)))
    run(replace(moved, training=replace(moved.training, epochs=3)), tmp_path / "run")
    data = open_run(tmp_path / "run").recipe.data
    assert (data.folder, data.file) == ("", str(there.resolve()))


def test_a_run_on_a_text_of_ones_own_can_be_used_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    file = write_text(tmp_path / "here" / "own.txt")
    monkeypatch.chdir(tmp_path / "here")
    recipe = tiny(Path("own.txt"))
    made = run(recipe, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert open_with_text(made.folder)[1].name == "tiny"
    (tmp_path / "there").mkdir()
    file.rename(tmp_path / "there" / "own.txt")
    with pytest.raises(UserError, match="does not exist"):
        open_with_text(made.folder)
    assert open_with_text(made.folder, "there")[1].name == "tiny"
    run(replace(recipe, data=replace(recipe.data, file="there/own.txt")), made.folder)  # the same text elsewhere


def test_a_run_made_longer_is_measured_again(tmp_path: Path) -> None:
    recipe = tiny(write_text(tmp_path / "own.txt"))
    recipe = replace(
        recipe, training=replace(recipe.training, epochs=1, learning_rate=1e-9)
    )  # the first epoch stays about best
    for epochs in (1, 2):
        longer = replace(recipe, training=replace(recipe.training, epochs=epochs))
        made = run(longer, tmp_path / "run", ["test"])
        told = parse_signature(json.loads(made.file("test.json").read_text())["signature"])
        assert told["epochs"] == str(epochs)


def test_weights_may_be_read_by_whoever_may_read_the_rest(tmp_path: Path) -> None:
    made = run(tiny(write_text(tmp_path / "own.txt")), tmp_path / "run")
    modes = {path.name: path.stat().st_mode & 0o777 for path in made.folder.iterdir() if not path.name.startswith(".")}
    assert len(set(modes.values())) == 1, modes


@pytest.mark.parametrize("line", ["3", '{"epoch": 2}', '{"epoch": 1, "perplexity": null, "sigma_z": 1, "seconds": 2}'])
def test_a_history_that_training_did_not_write_is_an_error(tmp_path: Path, line: str) -> None:
    (tmp_path / "history.jsonl").write_text(line + "\n")
    with pytest.raises(UserError, match="line 1"):
        read_history(tmp_path / "history.jsonl")


def test_a_step_brings_a_learned_normalizer_nearer_and_not_past() -> None:
    """g moves all scores of a context at once: at the words' learning rate its steps would swing log Z from side to side."""
    V, B, T, rng = 50, 20, 20, torch.Generator().manual_seed(0)
    model = build(Model(d=100), V, rng, normalizer=True)
    c = torch.rand((B, T, 100), generator=rng) - 0.5
    words = torch.randint(V, (B, T), generator=rng)
    criterion = make_criterion(CriterionSettings("nce_learned"), np.ones(V, dtype=np.int64))
    network = model.output.normalizer
    assert isinstance(network, Mlp)

    def off() -> float:
        return float(model.output.log_z(c.view(-1, 100)).detach().mean())

    network.affine.b.data.fill_((off() + 1) / network.scale)
    before = off()
    model.zero_grad(set_to_none=True)
    (criterion(model.output, c, Window(words, words), rng).fit.sum() / B).backward()
    for weight in network.parameters():
        weight.data -= weight.grad
    assert abs(off()) < abs(before) == pytest.approx(1, abs=0.1)


def test_a_learned_normalizer_is_not_read_as_one_of_another_scale() -> None:
    model = build(Model(d=4), 5, torch.Generator().manual_seed(0), normalizer=True)
    stored = tensors_of(model)
    assert "output.normalizer.scale" in stored
    del stored["output.normalizer.scale"]  # as models of before the scale were stored
    with pytest.raises(UserError, match="do not fit the recipe"):
        fill(model, stored)


def test_a_run_that_goes_on_says_what_it_removes(
    text_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="selfnorm")
    recipe = tiny(text_file)
    made = run(recipe, tmp_path / "r", ("test.shift",))
    (made.folder / "model.onnx").write_text("")
    assert "has no <unk>" in caplog.text
    caplog.clear()
    run(replace(recipe, training=replace(recipe.training, epochs=4)), tmp_path / "r")
    told = caplog.text
    assert "calibration.shift.safetensors" in told and "test.shift.json" in told and "model.onnx" in told
    assert "has no <unk>" not in told, "said once, at the start"


def test_training_never_touches_files_of_the_user(tmp_path: Path, text_file: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    own = {name: f"mine: {name}" for name in ("train.json", "test-set.json", "env.json", "calibration-notes.md")}
    for name, text in own.items():
        (home / name).write_text(text)
    with pytest.raises(UserError, match="not empty and not a run"):
        run(tiny(text_file), home)
    assert {p.name: p.read_text() for p in home.iterdir()} == own
    made = run(tiny(text_file), tmp_path / "run")
    kept = {name: f"mine: {name}" for name in ("train-set.json", "testing.json", "calibration-notes.md")}
    for name, text in kept.items():
        made.file(name).write_text(text)
    with changing(made) as new:
        assert "valid.json" in new.remove(derived_names())
    assert {name: made.file(name).read_text() for name in kept} == kept


def test_a_lock_that_is_a_symbolic_link_is_refused_and_its_target_kept(tmp_path: Path, text_file: Path) -> None:
    victim = tmp_path / "thesis.txt"
    victim.write_text("years of work")
    folder = tmp_path / "run"
    run(tiny(text_file), folder)
    (folder / ".lock").unlink()
    (folder / ".lock").symlink_to(victim)
    with pytest.raises(UserError, match="symbolic link"):
        run(tiny(text_file), folder)
    assert victim.read_text() == "years of work"

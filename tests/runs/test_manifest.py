"""The manifest: a damaged, swapped or missing file is named when the run is opened; a change is whole or absent."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from selfnorm._util import change as changes
from selfnorm._util import manifest as manifests
from selfnorm._util.change import change, checked, settled
from selfnorm._util.errors import UserError
from selfnorm._util.manifest import Damaged, Manifest, digest, read_manifest, trusting, write_manifest
from selfnorm.cli import main
from selfnorm.runs.calibrations import save_calibration, stored_facts
from selfnorm.runs.folder import open_run, stamp
from selfnorm.runs.opening import load
from selfnorm.studies.experiment import run_experiment

from ..conftest import tiny, write_text


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("manifest")
    os.environ["SELFNORM_CACHE"] = str(base / "cache")
    run = run_experiment(tiny(write_text(base / "tiny.txt")), base / "run", ["valid", "valid.shift"])
    return run.folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


def swap_lines(path: Path) -> None:
    one, two, *rest = path.read_text().split("\n")
    path.write_text("\n".join([two, one, *rest]))


def as_int8(path: Path) -> None:
    save_file({name: t.to(torch.int8) for name, t in load_file(path).items()}, path, metadata={"link": ""})


EDITS = {
    "vocab.txt": swap_lines,
    "best.safetensors": as_int8,
    "recipe.toml": lambda path: path.write_text(path.read_text().replace("tied = false", "tied = true")),
    "tokenizer.json": lambda path: path.write_text('{"tokens": "words"}\n'),
    "calibration.json": lambda path: path.unlink(),
    "manifest.json": lambda path: path.write_text(path.read_text().replace('"gone": []', '"gone": ["x"]')),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_file_is_named(name: str, folder: Path) -> None:
    load(folder)
    EDITS[name](folder / name)
    with pytest.raises(Damaged, match=name.replace(".", r"\.")):
        load(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt", "manifest.json"])
def test_one_who_edited_on_purpose_can_go_on(name: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    EDITS[name](folder / name)
    with trusting(True):
        load(folder)
    assert name in caplog.text
    with pytest.raises(Damaged):
        load(folder)
    load(folder, trust=True)
    manifests._TRUSTED.clear()


def test_the_command_line_takes_trust(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swap_lines(folder / "vocab.txt")
    (folder / "s.txt").write_text("the cat\n")
    assert main(["score", str(folder), str(folder / "s.txt")]) == 2
    assert "vocab.txt" in capsys.readouterr().err
    assert main(["score", str(folder), str(folder / "s.txt"), "--trust"]) == 0


def test_weights_that_do_not_fit_are_refused_even_if_trusted(folder: Path) -> None:
    for name in ("best.safetensors", "recipe.toml"):
        EDITS[name](folder / name)
        with trusting(True), pytest.raises(UserError, match="do not fit the recipe"):
            load(folder)


def test_a_link_out_of_the_folder_and_a_pipe_are_refused(folder: Path, tmp_path: Path) -> None:
    best = folder / "best.safetensors"
    best.rename(tmp_path / "elsewhere")
    best.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Damaged, match="symbolic link"):
        load(folder)
    best.unlink()
    os.mkfifo(best)
    with pytest.raises(Damaged, match="not a regular file"):
        load(folder)


def test_a_manifest_cannot_name_files_elsewhere(folder: Path) -> None:
    for wrong in (
        Manifest(gone=("../tiny.txt",)),
        Manifest(moves={"a": "../a.1.new"}),
        Manifest(moves={"a": "tiny.txt"}),
    ):
        write_manifest(folder, wrong)
        with pytest.raises(Damaged, match=r"manifest\.json"):
            settled(folder)


def test_a_manifest_of_someone_else_never_touches_a_file_of_the_user(folder: Path) -> None:
    thesis = folder / "thesis.txt"
    thesis.write_text("years of work")
    (folder / ".thesis.txt.1.new").write_text("nonsense")
    for wrong in (Manifest(gone=("thesis.txt",)), Manifest(moves={"thesis.txt": ".thesis.txt.1.new"})):
        write_manifest(folder, wrong)
        with pytest.raises(Damaged, match=r"thesis\.txt"):
            settled(folder)
        assert thesis.read_text() == "years of work"


def test_a_large_file_is_hashed_once_and_again_when_it_was_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reads = tmp_path / "large", []
    path.write_bytes(b"a" * (1 << 20))
    os.utime(path, (1, 1))
    monkeypatch.setattr(manifests, "SETTLED", -1)
    hashed = manifests.hashlib.file_digest
    monkeypatch.setattr(manifests.hashlib, "file_digest", lambda *given: reads.append(1) or hashed(*given))
    first = digest(path)
    assert digest(path, first) == first and len(reads) == 1
    raw = bytearray(path.read_bytes())
    raw[5] ^= 1
    path.write_bytes(raw)
    os.utime(path, (1, 1))  # even with its old times: the inode's own time cannot be set
    assert digest(path, first) != first and len(reads) == 2


def test_a_run_of_an_earlier_version_opens_with_one_note_and_gets_a_manifest(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "manifest.json").unlink()
    caplog.set_level("INFO", logger="selfnorm")
    for _ in range(2):
        load(folder)
    assert caplog.text.count("earlier version") == 1
    run = open_run(folder)
    from selfnorm.runs.calibrations import use_calibration

    use_calibration(run, "shift")
    listed = read_manifest(folder)
    assert listed is not None and {"recipe.toml", "vocab.txt", "best.safetensors", "valid.json"} <= set(listed.files)
    swap_lines(folder / "vocab.txt")
    with pytest.raises(Damaged):
        load(folder)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("point", range(6))
def test_a_calibration_killed_anywhere_is_whole_or_absent(
    point: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from selfnorm.nn.normalizers import Affine

    run, calls = open_run(folder), []
    before = {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")}

    def counted(name: str) -> None:
        real = getattr(Path, name)

        def wrapper(self: Path, *given: object, **named: object) -> object:
            if folder in self.parents and "lock" not in self.name:
                if len(calls) == point:
                    raise Killed
                calls.append(self.name)
            return real(self, *given, **named)

        monkeypatch.setattr(Path, name, wrapper)

    counted("replace")
    monkeypatch.setattr(Path, "unlink", lambda *given, **named: None)  # a killed process cleans nothing
    with pytest.raises(Killed):
        save_calibration(run, "affine", Affine(12), {"valid_after": {"sigma_z": 1.0}}, stamp(run))
    monkeypatch.undo()
    os.environ["SELFNORM_CACHE"] = str(folder.parent / "cache")
    kinds = stored_facts(run)
    names = {p.name for p in folder.iterdir() if not p.name.startswith(".")}
    if "affine" in kinds:
        load(folder, normalized=True)
        assert "calibration.affine.safetensors" in names and kinds["kind"] == "affine"
    else:
        assert {n: (folder / n).read_bytes() for n in names} == before
    with change(folder):
        pass
    assert not list(folder.glob(".*.new")) and not read_manifest(folder).open


def test_facts_of_simultaneous_calibrations_are_all_kept(folder: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from selfnorm.nn.normalizers import Affine

    run = open_run(folder)

    def store(kind: str) -> None:
        save_calibration(run, kind, Affine(12), {"valid_after": {"sigma_z": 1.0}}, stamp(run), use=False)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(store, ["affine", "mlp", "screen", "int8"] * 3))
    assert {"shift", "affine", "mlp", "screen", "int8"} <= set(stored_facts(run))
    assert all(checked(folder, f"calibration.{kind}.safetensors") for kind in ("affine", "mlp", "int8"))
    assert changes.read_manifest(folder).files["valid.json"]


def test_a_damaged_checkpoint_and_one_of_another_run_are_named(folder: Path, original: Path) -> None:
    path, recipe = folder / "checkpoint.safetensors", tiny(original.parent / "tiny.txt")
    raw = bytearray(path.read_bytes())
    raw[-100] ^= 4
    good = path.read_bytes()
    path.write_bytes(raw)
    with pytest.raises(Damaged, match=r"checkpoint\.safetensors is damaged"):
        run_experiment(recipe, folder, [])
    path.write_bytes(good)
    run_experiment(recipe, folder, [])
    other = run_experiment(tiny(original.parent / "tiny.txt", k=11), folder.parent / "other", [])
    shutil.copy(other.file("checkpoint.safetensors"), path)
    with pytest.raises(Damaged, match="another run"):
        run_experiment(recipe, folder, [])

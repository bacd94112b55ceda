"""The examples run."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from selfnorm.runs.opening import load as open_scorer

from ..conftest import write_text

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def example(name: str, *arguments: str, text: str = "") -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ten_lines_and_onnx(tmp_path: Path) -> None:
    file = write_text(tmp_path / "text.txt")
    said = example("ten_lines.py", str(file), str(tmp_path / "run"))
    assert "sigma_z" in said and "score of a sentence" in said
    pytest.importorskip("onnxruntime")
    from selfnorm.cli import main

    assert main(["export", str(tmp_path / "run"), "--to", "onnx"]) == 0
    about = json.loads((tmp_path / "run" / "model.json").read_text())
    assert "criterion:nce|" in about["signature"] and "calibration:shift" in about["signature"]
    sentences = "the cat saw a dog\nit was here\n"
    scores = example("score_with_onnx.py", str(tmp_path / "run" / "model.onnx"), text=sentences)
    scorer = open_scorer(tmp_path / "run")
    assert [float(x) for x in scores.split()] == pytest.approx(
        [scorer.score(s) for s in sentences.splitlines()], abs=1e-3
    )


def test_zloss() -> None:
    assert "Under control" in example("zloss_in_a_training_loop.py")


def test_the_converter_of_switchboard_lists(tmp_path: Path) -> None:
    text = "2\t<s> hi there </s>\n0.5\t-120.5\t2\t<s> hi where </s>\n0\t-121\t2\t<s> hi [there] </s>\n"
    with tarfile.open(tmp_path / "s.tar.xz", "w:xz") as tar:
        for name, content in (
            ("s/dev/easy/u1", text),
            ("s/dev/unrestricted/u2", text),
            ("s/train/switchboard-small", "<s> Hi </s>\n"),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content.encode()))
    example("swbd_to_jsonl.py", str(tmp_path / "s.tar.xz"), str(tmp_path / "out"))
    found = json.loads((tmp_path / "out" / "easy.jsonl").read_text())
    assert found["ref"] == "hi there" and found["hyps"][1]["text"] == "hi there"
    assert (tmp_path / "out" / "train.txt").read_text() == "hi\n"

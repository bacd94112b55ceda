"""Text to ids: counts, reuse, splits, and every kind of bad input."""

from __future__ import annotations

import functools
import http.server
import lzma
import re
import sys
import threading
import time
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfnorm._util.errors import UserError
from selfnorm._util.files import cache_folder
from selfnorm.config.recipe import Data
from selfnorm.data.corpus import _key, describe, open_corpus
from selfnorm.data.encode import encode
from selfnorm.data.sources.base import Source
from selfnorm.data.sources.published import PUBLISHED, Published
from selfnorm.data.sources.synthetic import truth, truth_in
from selfnorm.data.tokenizers import LAST_MARK, sentences_of, words_of
from selfnorm.data.vocab import EOS, UNK

from ..conftest import write_text


def three_files(folder: Path, train: str = "a b a\nb a c\n" * 20, valid: str = "a b\n", test: str = "b d\n") -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in (("train", train), ("valid", valid), ("test", test)):
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


def test_encoding_counts_lines_words_and_unknowns(tmp_path: Path) -> None:
    corpus = open_corpus(Data(name="own", folder=str(three_files(tmp_path / "t"))))
    assert {s: len(ids) for s, ids in corpus.splits.items()} == {"train": 160, "valid": 3, "test": 3}
    assert set(corpus.vocab.words) == {"a", "b", "c", EOS, UNK}
    assert corpus.vocab.words[0] == "a" and corpus.vocab.counts[0] == 60
    assert [corpus.vocab.words[i] for i in corpus["test"]] == ["b", UNK, EOS]


def test_the_most_frequent_word_comes_first_and_rare_words_become_unk() -> None:
    vocab, splits = encode({"train": lambda: iter(["x y y z z z"]), "valid": lambda: iter(["y"])}, min_count=2)
    assert vocab.words[0] == "z" and "x" not in vocab.index
    assert vocab.counts[vocab.unk] == 1
    assert splits["train"].dtype == np.int32


def test_a_prepared_text_is_memory_mapped_and_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Data(name="own", folder=str(three_files(tmp_path / "t")))
    corpus = open_corpus(data)
    assert isinstance(corpus["train"], np.memmap)
    monkeypatch.setattr("selfnorm.data.corpus.encode", lambda *a: pytest.fail("encoded again"))
    open_corpus(data)
    three_files(tmp_path / "t", train="q r s q r s\n" * 30)
    with pytest.raises(pytest.fail.Exception):
        open_corpus(data)  # changed text is prepared anew


def test_one_file_is_split_without_losing_a_line(tmp_path: Path) -> None:
    file = write_text(tmp_path / "one.txt", lines=777)
    corpus = open_corpus(Data(name="one", file=str(file)))
    eos = corpus.vocab.eos
    assert sum(int((ids == eos).sum()) for ids in corpus.splits.values()) == 777
    assert len(corpus["train"]) > 8 * len(corpus["valid"])


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda f: (f / "valid.txt").unlink(), "exactly one valid file"),
        (lambda f: (f / "test.txt").write_text(""), "is empty"),
        (lambda f: (f / "train.txt").write_bytes(b"ok\n\xff\xfe bad\n"), "line 2 is not UTF-8"),
        (lambda f: (f / "train.txt").write_text("\n\n \n\n"), "is empty"),
        (lambda f: (f / "train.txt").write_text("a a\na\n"), "vocabulary of 1"),
        (lambda f: (f / "train.txt").rename(f / "train.xz"), "not a whole .xz file"),
    ],
)
def test_bad_input_is_a_sentence_and_leaves_nothing_behind(tmp_path: Path, break_it, says: str) -> None:
    folder = three_files(tmp_path / "t")
    break_it(folder)
    before = set(cache_folder().glob("bad-*"))
    with pytest.raises(UserError, match=says):
        open_corpus(Data(name="bad", folder=str(folder)))
    assert set(cache_folder().glob("bad-*")) == before and not [
        p for p in cache_folder().glob(".bad-*") if p.suffix != ".lock"
    ]


def fake_known(folder: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, int]) -> None:
    import hashlib

    sha = {s: hashlib.sha256((folder / f"{s}.txt").read_bytes()).hexdigest() for s in ("train", "valid", "test")}
    monkeypatch.setitem(PUBLISHED, "ptb", Published({s: f"{s}.txt" for s in sha}, sha, expected))


def test_published_texts_are_checked_by_checksum_and_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = three_files(tmp_path / "t")
    fake_known(folder, monkeypatch, {"train": 160, "V": 5})
    assert describe(Data(name="ptb", folder=str(folder)))["V"] == 5
    (folder / "valid.txt").write_text("b a\n")
    with pytest.raises(UserError, match="sha256"):
        open_corpus(Data(name="ptb", folder=str(folder)))
    fake_known(folder, monkeypatch, {"train": 161, "V": 5})
    with pytest.raises(UserError, match="161 were expected"):
        open_corpus(Data(name="ptb", folder=str(folder), min_count=1))


def test_published_texts_may_be_compressed_and_in_a_subfolder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = three_files(tmp_path / "ptb")
    fake_known(folder, monkeypatch, {})
    for path in list(folder.iterdir()):
        (folder / f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes()))
        path.unlink()
    monkeypatch.setenv("SELFNORM_DATA", str(tmp_path))
    assert len(open_corpus(Data(name="ptb"))["train"]) == 160


def test_downloads_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real server on loopback; one good set of files, then a corrupted one."""
    from selfnorm.data.sources import downloads
    from selfnorm.data.sources import published as sources

    folder = three_files(tmp_path / "t", train="one two three one two\n" * 40)
    for split in ("train", "valid", "test"):
        (folder / f"ptb.{split}.txt").write_bytes((folder / f"{split}.txt").read_bytes())
    fake_known(folder, monkeypatch, {})
    monkeypatch.setattr(sources.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("SELFNORM_CACHE", str(tmp_path / "cache"))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *a: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("SELFNORM_MIRROR", f"http://127.0.0.1:{server.server_port}")
        assert len(open_corpus(Data(name="ptb"))["train"]) == 240
        (folder / "ptb.valid.txt").write_text("tampered\n")
        monkeypatch.setenv("SELFNORM_CACHE", str(tmp_path / "another"))
        with pytest.raises(UserError, match="could not be fetched"):
            downloads.fetch("ptb", "valid", PUBLISHED["ptb"].sha256["valid"])
        assert not list((tmp_path / "another").rglob("ptb.valid"))
        server.shutdown()


def test_words_and_sentences_of_running_text() -> None:
    assert words_of("Mr. Speaker, it's $1,000.50!") == [
        "mr",
        ".",
        "speaker",
        ",",
        "it's",
        "$",
        "1,000.50",
        "!",
    ]
    assert words_of("İstanbul, cafe\u0301; \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645!") == [
        "i\u0307stanbul", ",", "caf\u00e9", ";", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "!",
    ]  # fmt: skip
    assert words_of("I \u2764\ufe0flove it, 1\ufe0f\u20e3") == [
        "i",
        "\u2764",
        "\ufe0f",
        "love",
        "it",
        ",",
        "1",
        "\ufe0f",
        "\u20e3",
    ]
    assert words_of("") == []
    assert len(sentences_of("One here. Two there! Three?")) == 3
    marks = ['"I see."', '"You know?"', "He left (at once.)", "Then he came."]
    assert sentences_of(" ".join(marks)) == marks, "closing marks stay with their sentence"


@settings(deadline=None)  # the first example compiles the patterns
@given(st.text(alphabet=st.one_of(st.sampled_from("aAé'’.,3 \u0301\u093f\u200d\u2014😀\U0001e94a"), st.characters())))
def test_marks_belong_to_words_by_a_plain_rule(line: str) -> None:
    """Against one pattern with every mark of Unicode, whatever the line holds."""
    line = line.lower().replace("’", "'")
    marked = any(is_mark(ch) for ch in line)
    assert words_of(line) == plain_words().findall(unicodedata.normalize("NFC", line) if marked else line)


def is_mark(ch: str) -> bool:
    return unicodedata.category(ch).startswith("M") or ch in "\u200c\u200d"


@functools.cache
def plain_words() -> re.Pattern[str]:
    marks = "".join(ch for ch in map(chr, range(sys.maxunicode + 1)) if is_mark(ch))
    assert ord(marks[-1]) == LAST_MARK
    word = rf"\w[\w{marks}]*"
    return re.compile(rf"\d+(?:[.,]\d+)*|{word}(?:['’]{word})*|[^\w\s]")


def test_texts_of_plugins_are_prepared_again_by_the_present_tokenizer() -> None:
    """Marks of their words were punctuation in texts prepared before; the built-in ones have none and keep their key."""
    source = Source(fingerprint="f", splits=dict, min_count=1, tokens="words")
    assert _key(Data(name="hindi"), source) != _key(Data(name="sotu"), source)


def test_the_built_in_text_splits_by_year() -> None:
    found = describe(Data(name="sotu", min_count=25))
    assert found["tokens"]["train"] > 1_900_000 and 60_000 < found["tokens"]["valid"] < 200_000


def test_the_synthetic_language_knows_its_own_truth() -> None:
    corpus = open_corpus(Data(name="synthetic"))
    table = truth()
    assert np.allclose(table.sum(1), 1)
    log_p = truth_in(corpus.vocab)
    assert np.allclose(np.exp(log_p).sum(1)[[i for i, w in enumerate(corpus.vocab.words) if w != UNK]], 1)
    ids = np.asarray(corpus["train"])
    word = corpus.vocab.words[0]
    after = ids[1:][ids[:-1] == corpus.vocab.index[word]]
    share = np.bincount(after, minlength=len(corpus.vocab)) / len(after)
    assert np.abs(share - np.exp(log_p[corpus.vocab.index[word]])).max() < 0.02


def test_encoding_is_quick() -> None:
    """40 M words in 60 s are 0.67 M a second; a third of that is asked for on a busy machine."""
    line = " ".join(f"w{i * i % 997}" for i in range(50))
    start = time.perf_counter()
    encode({"train": lambda: iter([line] * 10_000)}, 1)
    assert 500_000 / (time.perf_counter() - start) > 220_000


def test_a_folder_of_novels_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    from selfnorm.data.sources import mscc

    folder = tmp_path / "Holmes_Training_Data"
    folder.mkdir()
    (folder / "A.TXT").write_text("one")
    stamps = [mscc.source(Data(name="mscc", folder=str(tmp_path))).fingerprint]
    (folder / "A.TXT").write_text("two")
    stamps.append(mscc.source(Data(name="mscc", folder=str(tmp_path))).fingerprint)
    (folder / "b.txt").write_text("three")
    stamps.append(mscc.source(Data(name="mscc", folder=str(tmp_path))).fingerprint)
    (folder / "notes.md").write_text("not a novel")
    assert len(set(stamps)) == 3 and mscc.source(Data(name="mscc", folder=str(tmp_path))).fingerprint == stamps[-1]


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path: Path) -> None:
    write_text(tmp_path / "plain.txt", lines=60)
    (tmp_path / "marked.txt").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "plain.txt").read_bytes())
    plain, marked = (open_corpus(Data(name="x", file=str(tmp_path / f"{n}.txt"))) for n in ("plain", "marked"))
    assert plain.vocab.words == marked.vocab.words and plain.fingerprint == marked.fingerprint


def test_a_file_is_looked_for_in_the_folder_if_one_is_named(tmp_path: Path) -> None:
    write_text(tmp_path / "mine.txt", lines=60)
    there = open_corpus(Data(name="x", folder=str(tmp_path), file="mine.txt"))
    assert there.fingerprint == open_corpus(Data(name="x", file=str(tmp_path / "mine.txt"))).fingerprint
    for moved in (tmp_path, tmp_path / "mine.txt"):  # a text that was elsewhere, and the file itself
        assert Data(folder=str(moved), file="/was/here/mine.txt").path == tmp_path / "mine.txt"
    with pytest.raises(UserError, match="does not exist"):
        open_corpus(Data(name="x", folder=str(tmp_path), file="a\0b"))

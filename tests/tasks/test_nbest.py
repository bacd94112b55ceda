"""Readers of n-best lists: files as users have them, and every bad input named."""

from __future__ import annotations

import gzip
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from selfnorm._util.errors import UserError
from selfnorm.tasks.nbest.base import Reading, lines_of
from selfnorm.tasks.nbest.lattice import Arc, Lattice
from selfnorm.tasks.nbest.lists import escaped, read_lists, stream_lists
from selfnorm.tasks.wer import References, read_mapping, read_references


def test_nemo_files_without_blank_lines_need_the_beam_size(tmp_path: Path) -> None:
    path = tmp_path / "preds.tsv"
    path.write_text("".join(f"word{i} here\t-{i}.5\n" for i in range(12)))
    with pytest.raises(UserError, match=r"all 12 lines would be one.*--beam-size"):
        read_lists(path, "nemo")
    lists = list(stream_lists(path, "nemo", Reading(beam_size=4)))
    assert [n.name for n in lists] == ["0", "1", "2"] and lists[1].hypotheses[0].words == ("word4", "here")
    with pytest.raises(UserError, match="ends with 2 lines of a list of 5"):
        list(stream_lists(path, "nemo", Reading(beam_size=5)))
    with pytest.raises(UserError, match="beam-size 0"):
        list(stream_lists(path, "nemo", Reading(beam_size=0)))


def test_espnet_folders_are_read_side_by_side(tmp_path: Path) -> None:
    for rank, (words, score) in enumerate([("the cat", "-1.5"), ("a cat", "tensor(-2.25)")], 1):
        folder = tmp_path / f"{rank}best_recog"
        folder.mkdir()
        (folder / "text").write_text(f"u1 {words}\nu2 it\n")
        (folder / "score").write_text(f"u1 {score}\nu2 -{rank}\n")
    lists, _ = read_lists(tmp_path, "espnet")
    assert [(h.words, h.score) for h in lists[0].hypotheses] == [(("the", "cat"), -1.5), (("a", "cat"), -2.25)]
    (tmp_path / "2best_recog" / "text").write_text("u2 it\nu1 a cat\n")
    with pytest.raises(UserError, match=r"2best_recog/text line 1: expected utterance u1"):
        read_lists(tmp_path, "espnet")
    (tmp_path / "2best_recog" / "text").write_text("u1 a cat\nu2 it\nu3 no\n")
    with pytest.raises(UserError, match=r"2best_recog/text line 3: 1best_recog/text has no more lines"):
        read_lists(tmp_path, "espnet")
    (tmp_path / "2best_recog").rename(tmp_path / "3best_recog")
    with pytest.raises(UserError, match="not 2best_recog"):
        read_lists(tmp_path, "espnet")
    with pytest.raises(UserError, match="no folder 1best_recog"):
        read_lists(tmp_path / "1best_recog", "espnet")


def test_whisper_lines_hold_texts_or_tokens(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    rows = [
        {"id": 1, "sequences": ["the cat", "a cat"], "scores": [-0.5, -0.75], "ref": "the cat"},
        {"id": 2, "sequences": [["Ġthe", "Ġca", "t"]], "scores": [-0.5]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lists, _ = read_lists(path, "whisper")
    assert lists[0].reference == ("the", "cat") and lists[0].hypotheses[1].score == -0.75
    assert lists[1].hypotheses[0].words == ("the", "cat") and lists[1].hypotheses[0].score == -1.5
    tokens = ["Ġdon", "âĢĻ", "t", "Ġcaf", "Ã©", "Ġ", "ä¸Ń"], ["Ġcafé"]
    path.write_text(json.dumps({"id": 3, "sequences": tokens, "scores": [-1, -1]}))
    assert [h.words for h in read_lists(path, "whisper")[0][0].hypotheses] == [("don’t", "café", "中"), ("café",)]
    tokens = ["ĠcafÃ©", "Ġä¸"], ["Ġ\u00ff"]  # the end of a character is missing; no UTF-8
    path.write_text(json.dumps({"id": 4, "sequences": tokens, "scores": [-1, -1]}))
    assert [h.words for h in read_lists(path, "whisper")[0][0].hypotheses] == [("café",), ("ÿ",)]
    path.write_text('{"id": 1, "sequences": ["a"], "scores": []}\n')
    with pytest.raises(UserError, match="as many numbers"):
        read_lists(path, "whisper")


SLF = """VERSION=1.0
base=10
N=5 L=5
I=0 W=!NULL
I=1 W=the
I=2 W=a
I=3 W=cat
I=4 W=!NULL
J=0 S=0 E=1 a=-1 l=-0.5
J=1 S=0 E=2 a=-2 l=-0.1
J=2 S=1 E=3 a=-3 l=-0.2
J=3 S=2 E=3 a=-1 l=-0.2
J=4 S=3 E=4 a=0 l=0
"""


def test_htk_lattices_become_lists(tmp_path: Path) -> None:
    path = tmp_path / "utt.slf.gz"
    path.write_bytes(gzip.compress(SLF.encode()))
    (nbest,) = read_lists(path, "slf")[0]
    assert nbest.name == "utt" and [h.words for h in nbest.hypotheses] == [("a", "cat"), ("the", "cat")]
    assert nbest.hypotheses[0].score == pytest.approx(-3 * math.log(10))
    assert nbest.hypotheses[0].old_lm == pytest.approx(-0.3 * math.log(10))
    assert len(next(iter(stream_lists(path, "slf", Reading(paths=1)))).hypotheses) == 1
    long = SLF.replace("W=", "WORD=").replace(" S=", " START=").replace(" E=", " END=")
    (tmp_path / "long.slf").write_text(long.replace(" a=", " acoustic=").replace(" l=", " language="))
    assert read_lists(tmp_path / "long.slf", "slf")[0][0].hypotheses == nbest.hypotheses
    for bad, said in ((SLF.replace("S=1", "S=x"), "node numbers"), (SLF.replace("a=-3", "a=x"), "to be numbers"),
                      (SLF.replace("S=0 E=1", "S=4 E=1"), "without cycles"), ("nothing", "an HTK lattice")):  # fmt: skip
        (tmp_path / "bad.slf").write_text(bad)
        with pytest.raises(UserError, match=said):
            read_lists(tmp_path / "bad.slf", "slf")


def test_kaldi_lattices_and_linear_ones_become_lists(tmp_path: Path) -> None:
    path = tmp_path / "lat.txt"
    path.write_text("u1 \n0 1 the 1,10,1_2\n0 1 a 2,8,\n1 2 cat 0.5,3,\n2 0,0,\n\nu2\n0 1 it 0,1,\n1\n")
    one, two = read_lists(path, "kaldi_lattice")[0]
    assert [(h.words, h.score, h.old_lm) for h in one.hypotheses] == [
        (("a", "cat"), -11, -2.5),
        (("the", "cat"), -13, -1.5),
    ]
    assert two.hypotheses[0].words == ("it",)
    path.write_text("u-1\n0 1 the 1,10,\n1\n\nu-2\n0 1 a 1,11,\n1\n\nv-1\n0 1 it 0,1,\n1\n")
    lists = read_lists(path, "kaldi_lattice")[0]
    assert [(n.name, len(n.hypotheses)) for n in lists] == [("u", 2), ("v", 1)]
    branches = "0 1 the 1,10,\n0 1 a 2,11,\n1\n"
    path.write_text(f"u-1\n{branches}\nu-2\n{branches}")
    assert [n.name for n in stream_lists(path, "kaldi_lattice", Reading(paths=1))] == ["u-1", "u-2"]
    path.write_text(f"u\n{branches}\nu\n{branches}")
    with pytest.raises(UserError, match="list u comes twice"):
        read_lists(path, "kaldi_lattice")
    assert len(read_lists(path, "kaldi_lattice", skip_bad=True)[0]) == 1
    path.write_text("u1\n0 1 the x,y\n1\n")
    with pytest.raises(UserError, match="graph,acoustic"):
        read_lists(path, "kaldi_lattice")
    path.write_text("u1\n0 1 the 0,0\n")
    with pytest.raises(UserError, match="a path from the first node"):
        read_lists(path, "kaldi_lattice")


def test_the_best_paths_of_a_lattice_are_those_of_a_full_search() -> None:
    rng = np.random.default_rng(0)
    arcs = [
        Arc(i, j, "abc"[rng.integers(3)], float(rng.normal()), float(rng.normal()))
        for i in range(6) for j in range(i + 1, 7) for _ in range(2)
    ]  # fmt: skip
    every: dict[tuple[str, ...], float] = {}

    def walk(node: int, words: tuple[str, ...], total: float) -> None:
        if node == 6:
            every[words] = max(total, every.get(words, -math.inf))
        for arc in arcs:
            if arc.start == node:
                walk(arc.end, (*words, arc.word), total + arc.score + arc.lm)

    walk(0, (), 0.0)
    best = Lattice(arcs, 0, {6: (0.0, 0.0)}).best(20)
    slow = sorted(every.items(), key=lambda item: -item[1])[:20]
    assert [h.score + h.old_lm for h in best] == pytest.approx([total for _, total in slow])
    assert [h.words for h in best] == [words for words, _ in slow]


def test_kaldi_folders_may_be_compressed_and_costs_in_another_order(tmp_path: Path) -> None:
    (tmp_path / "words_text.gz").write_bytes(gzip.compress(b"u-1 the cat\nu-2 a cat\nv-1 it\n"))
    (tmp_path / "acwt.gz").write_bytes(gzip.compress(b"v-1 3\nu-2 2\nu-1 1\n"))
    lists, _ = read_lists(tmp_path, "kaldi")
    assert [[h.score for h in n.hypotheses] for n in lists] == [[-1, -2], [-3]]


def test_a_list_that_comes_back_later_is_a_bad_line(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("0 ||| a ||| ||| -1\n1 ||| b ||| ||| -1\n0 ||| c ||| ||| -1\n")
    with pytest.raises(UserError, match="line 3: expected the lines of a list next to each other"):
        read_lists(tmp_path / "m", "moses")


def test_a_bad_field_is_named_and_only_its_hypothesis_is_dropped(tmp_path: Path) -> None:
    hyps = [
        {"text": "a", "score": 1},
        {"text": "b", "score": "x"},
        {"text": 3, "score": 1},
        {"text": "d", "score": 2, "lm": math.nan},
    ]
    (tmp_path / "l").write_text(json.dumps({"id": "u", "hyps": hyps}) + "\n")
    with pytest.raises(UserError, match='"score" of hypothesis 2 of u to be a finite number'):
        read_lists(tmp_path / "l", "jsonl")
    lists, skipped = read_lists(tmp_path / "l", "jsonl", skip_bad=True)
    assert [h.words for h in lists[0].hypotheses] == [("a",)] and len(skipped) == 3


def test_lines_come_from_plain_and_compressed_files_and_say_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress("ein\r\nzwei\u2028drei".encode()))
    assert list(lines_of(tmp_path / "a.gz")) == ["ein", "zwei\u2028drei"]
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"words " * 1000)[:-9])
    (tmp_path / "not.gz").write_text("plain")
    (tmp_path / "latin").write_bytes(b"ok\ncaf\xe9\n")
    for name, said in (
        ("cut.gz", "whole gzip"),
        ("not.gz", "whole gzip"),
        ("latin", "line 2 is not UTF-8"),
        ("no", "does not exist"),
        (".", "is a folder"),
    ):
        with pytest.raises(UserError, match=said):
            list(lines_of(tmp_path / name))


@pytest.mark.parametrize("packed", [False, True])
def test_stdin_is_read_as_a_file(packed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    line = b'{"id": "u", "hyps": [{"text": "a", "score": 1}]}\n'
    (tmp_path / "in").write_bytes(gzip.compress(line) if packed else line)
    with (tmp_path / "in").open() as handle:
        monkeypatch.setattr("sys.stdin", handle)
        assert [n.name for n in stream_lists(Path("-"), "jsonl", Reading())] == ["u"]


def test_reading_holds_one_list_at_a_time(tmp_path: Path) -> None:
    line = json.dumps({"id": "ID", "hyps": [{"text": "a b c", "score": 1}]})
    (tmp_path / "l").write_text("".join(line.replace("ID", f"u{i}") + "\n" for i in range(5)) + "broken\n")
    lists = stream_lists(tmp_path / "l", "jsonl", Reading())
    assert [n.name for n in itertools.islice(lists, 5)] == ["u0", "u1", "u2", "u3", "u4"]
    with pytest.raises(UserError, match="line 6"):
        next(lists)


def test_references_are_checked(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("u1 the cat\nu1 a cat\n")
    with pytest.raises(UserError, match="line 2: there is a reference for u1 already"):
        read_references(tmp_path / "r")
    (tmp_path / "e").write_text("\n")
    with pytest.raises(UserError, match="holds no reference"):
        read_references(tmp_path / "e")
    (tmp_path / "m").write_text("uh %hes\num %hes\nnoise\n")
    compare = References({"u%201": "Uh the cat"}, ignore_case=True, mapping=read_mapping(tmp_path / "m"))
    path = tmp_path / "l"
    path.write_text(json.dumps({"id": "u 1", "hyps": [{"text": "um the noise cat", "score": 1}]}) + "\n")
    (nbest,) = read_lists(path, "jsonl")[0]
    counts, words = compare.counts(nbest) or (np.array([9]), 0)
    assert counts.tolist() == [0] and words == 3 and escaped("u 1") == "u%201" and escaped("50%") == "50%"


def test_references_in_another_case_stop(tmp_path: Path) -> None:
    rows = [{"id": str(i), "hyps": [{"text": "the cat", "score": 1}], "ref": "THE CAT"} for i in range(25)]
    (tmp_path / "l").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lists, _ = read_lists(tmp_path / "l", "jsonl")
    compare = References()
    with pytest.raises(UserError, match=r"differ in case.*--ignore-case"):
        for nbest in lists:
            compare.counts(nbest)

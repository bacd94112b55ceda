"""The audit of a tiny model: its numbers against slow ones, going on after a stop, and what the command writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from selfnorm._util.errors import UserError
from selfnorm.cli import main
from selfnorm.hf.adapter import Adapter
from selfnorm.hf.audit import collect, text
from selfnorm.hf.audit.ceiling import Ceiling, ceiling
from selfnorm.hf.audit.numbers import kind_of
from selfnorm.hf.scorer import chosen, open_scorer
from tests.hf.conftest import SENTENCES, tiny_tokenizer
from tests.hf.families import tiny_model


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder, rng = tmp_path_factory.mktemp("texts"), np.random.default_rng(0)
    for name, count in (("one", 140), ("two", 60)):
        (folder / f"{name}.txt").write_text("\n".join(SENTENCES[i] for i in rng.integers(4, size=count)))
    return folder / "one.txt", folder / "two.txt"


@pytest.fixture(scope="session")
def audited(llama: Path, texts: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("audits") / "audit"
    given = ["audit", str(llama), str(texts[0]), "--other", str(texts[1]), "--window", "32", "--to", str(to)]
    assert main([*given, "--estimates", "affine", "--estimates", "int8"]) == 0
    return to


def test_windows_do_not_cross_documents(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    for name in ("b", "a"):
        (tmp_path / f"{name}.txt").write_text("\n".join([f"{name} {SENTENCES[0]}"] * 20))
    read = text.read(tmp_path, tokenizer, 16, 100, None)
    for place, name in enumerate("aaabbb"):  # 50 tokens of each document: three whole windows
        ids = tokenizer((tmp_path / f"{name}.txt").read_text(), add_special_tokens=False)["input_ids"]
        assert read.window(place).tolist() == ids[place % 3 * 16 : place % 3 * 16 + 16]
    assert read.windows == 6


def test_numbers_are_those_of_a_slow_walk(audited: Path, llama: Path, texts: tuple[Path, Path]) -> None:
    found = json.loads((audited / "audit.json").read_text())
    model, tokenizer = tiny_model("llama"), tiny_tokenizer()
    for file, numbers in zip(texts, found["texts"], strict=True):
        ids = torch.tensor(tokenizer(file.read_text(), add_special_tokens=False)["input_ids"])
        windows = ids[: len(ids) // 32 * 32].view(-1, 32)
        with torch.no_grad():
            logits = model(input_ids=windows).logits[:, :-1].double()
        log_z, log_p = logits.logsumexp(-1), logits.log_softmax(-1)
        nll = -log_p.gather(-1, windows[:, 1:, None])
        entropy = -(log_p.exp() * log_p).sum(-1)
        assert numbers["windows"] == len(windows) and numbers["contexts"] == log_z.numel()
        assert numbers["mu_z"] == pytest.approx(float(log_z.mean()), abs=1e-4)
        assert numbers["sigma_z"] == pytest.approx(float(log_z.std(correction=0)), abs=1e-4)
        assert numbers["perplexity"] == pytest.approx(float(nll.mean().exp()), rel=1e-4)
        assert numbers["entropy"] == pytest.approx(float(entropy.mean()), abs=1e-4)
        both = np.corrcoef(log_z.view(-1), entropy.view(-1))[0, 1]
        assert numbers["correlation"] == pytest.approx(both, abs=1e-3)
        for bands in ("by_position", "by_entropy", "by_token"):
            assert sum(row["contexts"] for row in numbers[bands]) == log_z.numel()


def test_estimates_have_rows_for_every_text_and_int8_leaves_little(audited: Path) -> None:
    found = json.loads((audited / "audit.json").read_text())
    rows = {(row["estimate"], row["text"]): row for row in found["estimates"]}
    assert set(rows) == {(kind, name) for kind in ("none", "affine", "int8") for name in ("one", "two")}
    for name in ("one", "two"):
        assert rows["int8", name]["sigma_z"] < 0.1 < rows["none", name]["sigma_z"]
        assert rows["int8", name]["u_perplexity"] == pytest.approx(rows["int8", name]["perplexity"], rel=0.05)
        assert 0 < found["floor"][name]["bf16_logits"] <= found["floor"][name]["bf16_log_sum"]
    page = (audited / "audit.html").read_text()
    assert page.count("<svg") == 3 and all(sentence in page for sentence in found["sentences"])


def test_an_audit_is_a_calibration_for_scoring(audited: Path, llama: Path) -> None:
    assert chosen(audited, cost=1.0).name == "int8.safetensors"
    estimated = open_scorer(f"hf:{llama}", False, str(audited), ["cost=1.0"])
    exact = open_scorer(f"hf:{llama}")
    for sentence in SENTENCES:
        assert estimated.score(sentence) == pytest.approx(exact.score(sentence), abs=0.5)
    with pytest.raises(UserError, match="keeps within"):
        chosen(audited, sigma=1e-9)


def test_a_stopped_audit_goes_on(llama: Path, texts: tuple[Path, Path], tmp_path: Path) -> None:
    adapter = Adapter(tiny_model("llama"))
    read = text.read(texts[1], tiny_tokenizer(), 32, 0, 64)
    whole = collect.walk(adapter, read, tmp_path / "whole")
    seen: list[int] = []
    contexts = adapter.contexts

    def stopping(ids: torch.Tensor, **more: Any) -> torch.Tensor:
        seen.append(1)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return contexts(ids, **more)

    adapter.contexts = stopping  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        collect.walk(adapter, read, tmp_path / "part")
    with (tmp_path / "part" / "contexts.f32").open("ab") as handle:
        handle.write(b"half a window")
    done = collect.walk(adapter, read, tmp_path / "part")
    assert len(seen) == read.windows + 1  # the two finished windows were not run again
    assert np.array_equal(done.c, whole.c) and np.array_equal(done.log_z, whole.log_z)


def test_the_ceiling_counts_the_body_and_says_what_it_means() -> None:
    found = ceiling(Adapter(tiny_model("llama")), torch.zeros(16, dtype=torch.long))
    linear = 2 * (32 * 32 * 2 + 32 * 16 * 2 + 3 * 32 * 48)
    assert found.head == 101 * 32 and linear <= found.body <= 1.3 * linear
    said = [Ceiling(ratio, 1.0).sentences()[0] for ratio in (0.05, 0.3, 1.5)]
    assert (
        "Do not bother" in said[0] and "Little to gain" in said[1] and "Worth it" in said[2] and "2.50 times" in said[2]
    )


@pytest.mark.parametrize(
    ("token", "kind"),
    [(" the", "start of a word"), ("ing", "inside a word or after no space"), ("12", "number"), (",", "punctuation"), ("\n", "space and line ends")],
)  # fmt: skip
def test_kinds_of_tokens(token: str, kind: str) -> None:
    assert kind_of(token, False) == kind


def test_wrong_texts_and_windows_are_sentences(
    llama: Path, texts: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = tmp_path / "short.txt"
    short.write_text("the cat")
    for given, sentence in (
        ([str(short)], "two windows of 512"), ([str(texts[0]), "--window", "1000"], "at most 64"),
        ([str(tmp_path / "none.txt")], "does not exist"), ([str(texts[0]), "--window", "1"], "at least 2"),
        ([str(texts[0]), "--window", "32", "--estimates", "magic"], "magic"),
    ):  # fmt: skip
        given = [*given, "--window", "512"] if sentence.startswith("two") else given
        code = main(["audit", str(llama), *given, "--to", str(tmp_path / "audit")])
        said = capsys.readouterr().err.replace("\n", " ")
        assert code == 2 and (sentence in said or "at most 64" in said), said


def test_score_and_rescore_take_a_model(
    llama: Path, audited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(SENTENCES))
    assert main(["score", f"hf:{llama}", str(tmp_path / "lines.txt"), "--per-word"]) == 0
    scores = [[float(x) for x in line.split()] for line in capsys.readouterr().out.splitlines()]
    assert [len(row) for row in scores] == [len(s.split()) + 1 for s in SENTENCES]
    hypotheses = [{"text": s, "score": 0.0} for s in SENTENCES]
    (tmp_path / "lists.jsonl").write_text(json.dumps({"id": "u1", "hyps": hypotheses}) + "\n")
    best = SENTENCES[int(np.argmax([sum(row) for row in scores]))]
    for more in ([], ["--calibration", str(audited), "--hf", "cost=1.0"]):
        assert main(["rescore", f"hf:{llama}", str(tmp_path / "lists.jsonl"), *more]) == 0
        captured = capsys.readouterr()
        assert captured.out.strip() == f"u1 {best}" and "read as: <s>|" in captured.err

"""The sentence completion challenge from novels to table, on a small challenge of the same form."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from selfnorm._util.errors import UserError
from selfnorm.cli import main
from selfnorm.config.recipe import Data, Recipe
from selfnorm.data.corpus import open_corpus
from selfnorm.report.completion import completion_table, of_the_challenge
from selfnorm.report.page import write_report
from selfnorm.runs.history import read_history
from selfnorm.studies.experiment import run_experiment as run
from selfnorm.studies.plan import read_study
from selfnorm.tasks.completion import mcnemar

from ..conftest import tiny, write_text

QUESTIONS = "id,question,a),b)\n1,the cat _____ a dog,saw,small\n2,it _____ here,was,bird\n3,the _____ saw,old,it\n"


def novels(folder: Path) -> Path:
    """A challenge's folder: two novels, questions, answers."""
    texts = folder / "Holmes_Training_Data"
    texts.mkdir(parents=True)
    for number in range(2):
        lines = write_text(folder / "lines", 900, number).read_text().replace("\n", " .\n\n").title()
        (texts / f"{number}.TXT").write_text(f"*END*THE SMALL PRINT!\n{lines}\nEnd of Project Gutenberg\n")
    (folder / "testing_data.csv").write_text(QUESTIONS)
    (folder / "test_answer.csv").write_text("id,answer\n1,a\n2,a\n3,a\n")
    return folder


def small(folder: Path) -> Recipe:
    recipe = tiny(folder / "unused")
    return replace(recipe, data=Data(name="mscc", folder=str(folder), max_words=4000))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("challenge")
    run(small(novels(base / "mscc")), base / "runs" / "nce", ["valid", "complete", "complete.mlp"])
    return base


def test_a_run_answers_the_questions_raw_and_calibrated(study: Path) -> None:
    raw, mlp = (json.loads((study / "runs" / "nce" / f"complete{k}.json").read_text()) for k in ("", ".mlp"))
    for found in (raw, mlp):
        assert found["questions"] == 3 and found["acc_n"] == pytest.approx(raw["acc_n"])
    assert mlp["sigma_z"] < raw["sigma_z"] and mlp["row"]["calibration"] == "mlp"
    assert raw["perplexity"] == pytest.approx(mlp["perplexity"], rel=1e-4)
    best = min(read_history(study / "runs" / "nce" / "history.jsonl"), key=lambda line: line["perplexity"])
    assert raw["words_read"] == round(4000 * best["epoch"])


def test_the_report_sets_them_beside_the_papers_cells(study: Path) -> None:
    write_report(study / "runs", study / "report.md")
    text = (study / "report.md").read_text()
    assert "### Sentence completion" in text and "Table 6" not in text, "three questions are not the challenge"
    raw = json.loads((study / "runs" / "nce" / "complete.json").read_text())
    papers = re.sub(r"\bk:\d+", "k:100", raw["signature"].replace("d:12", "d:650").split("|max_words")[0])
    full = {**raw, "signature": papers, "acc_n": 48.6}
    rows = completion_table([full]).rows
    assert len(rows) == 8 and rows[0][4:7] == ["47.6", "48.6", "+1.0"], "what was run comes first"
    assert all("selfnorm study run paper/table6" in row[2] for row in rows[1:])
    small = {**raw, "questions": 1040, "ngram": {"accuracy": 36.63, "mcnemar_p": 0.04}}
    assert of_the_challenge(small) and not of_the_challenge(raw)
    last = completion_table([small]).rows[0]
    assert last[1:3] == ["d = 650, 2 × 50 M words", "d = 12, 0.0 M words"] and last[-1] == "36.6 (0.040)"
    older = {key: value for key, value in small.items() if key != "words_read"}
    assert not of_the_challenge(older), "a file of version 0.1.0 has its own table"


def test_the_built_in_studies_name_the_papers_eight_models() -> None:
    planned = read_study("paper/table6").planned
    assert len(planned) == 8 and {p.recipe.training.epochs for p in planned} == {2, 5}
    assert all(p.recipe.training.decay == 2 and p.recipe.training.decay_after == 1 for p in planned)


def test_other_texts_have_no_questions(tmp_path: Path) -> None:
    recipe = tiny(write_text(tmp_path / "tiny.txt"))
    with pytest.raises(UserError, match="come with mscc"):
        run(recipe, tmp_path / "run", ["complete"])
    assert not (tmp_path / "run").exists()


def test_questions_that_are_not_there_are_missed_before_training(tmp_path: Path) -> None:
    folder = novels(tmp_path / "mscc")
    (folder / "testing_data.csv").unlink()
    with pytest.raises(UserError, match=r"testing_data\.csv is in neither"):
        run(small(folder), tmp_path / "run", ["complete"])
    assert not (tmp_path / "run").exists()


def test_the_written_text_is_what_the_models_see(study: Path, tmp_path: Path) -> None:
    command = f"data write mscc --from {study}/mscc --to {tmp_path}/train.txt --split valid --marks"
    assert main(command.split()) == 0
    corpus = open_corpus(Data(name="mscc", folder=str(study / "mscc")))
    lines = (tmp_path / "train.txt").read_text().splitlines()
    ids = [i for line in lines for i in [*corpus.vocab.ids(line.split()[1:-1]), corpus.vocab.eos]]
    assert all(line.startswith("<s> ") and line.endswith(" </s>") for line in lines)
    assert ids == corpus["valid"].tolist()
    assert list(corpus.sentences("valid")) == list(corpus.sentences("valid", at_once=7))


def test_an_ngram_model_answers_the_same_questions(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("kenlm")
    words = {"the": -0.7, "cat": -0.9, "saw": -0.2, "small": -3.0, "was": -0.3, "bird": -2.0, "old": -4.0, "it": -0.5}
    ones = "".join(f"{score}\t{word}\n" for word, score in words.items())
    (tmp_path / "lm.arpa").write_text(
        f"\\data\\\nngram 1={len(words) + 3}\nngram 2=1\n\n\\1-grams:\n-1.0\t<unk>\n0\t<s>\t0\n-0.8\t</s>\n{ones}"
        "\n\\2-grams:\n-0.7\t<s> the\n\n\\end\\\n"
    )
    base = f"complete {study}/runs/nce {study}/mscc/testing_data.csv"
    assert main(f"{base} {study}/mscc/test_answer.csv --ngram {tmp_path}/lm.arpa --json".split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ngram"]["accuracy"] == pytest.approx(200 / 3) and found["row"]["n-gram"] == "66.67"
    assert main(f"{base} --ngram {tmp_path}/lm.arpa".split()) == 2


def test_mcnemar_is_the_sign_test_of_the_questions_that_differ() -> None:
    first, second = [True] * 8 + [False] * 2, [True] * 3 + [False] * 5 + [True, False]
    assert mcnemar(first, second) == pytest.approx(2 * 7 / 64)  # 5 lost, 1 gained: P(at most 1 of 6) twice
    assert mcnemar(first, first) == 1

"""The sentence completion challenge with a run: the questions go in, one result for the report comes out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from selfnorm._util.console import progress
from selfnorm._util.errors import UserError
from selfnorm._util.machine import command_line, machine, today
from selfnorm.config.recipe import Data, Recipe
from selfnorm.config.signature import signature
from selfnorm.data.corpus import Corpus
from selfnorm.data.sources.base import data_folder
from selfnorm.registry.criteria import label
from selfnorm.registry.steps import COMPLETION
from selfnorm.runs.folder import Run
from selfnorm.runs.history import best_line, read_history, trained_epochs
from selfnorm.tasks.completion import Answered, Question, answer, answer_with_ngram, read_questions, summary, versus
from selfnorm.tasks.ngram import Ngram


def challenge(data: Data) -> list[Question]:
    """The questions and answers of the challenge, from the folder that holds its novels."""
    folder = data_folder(data.folder) if data.name == "mscc" else Path()
    if folder is None:
        raise UserError(
            "The questions are in the folder that holds the novels: name it with data.folder or SELFNORM_DATA."
        )
    if data.name != "mscc":
        raise UserError(
            f'"complete" answers the questions that come with mscc, but this run was trained on {data.name}. '
            "For other questions: selfnorm complete RUN QUESTIONS ANSWERS"
        )
    places = [base for base in (folder, folder / "mscc") if (base / "testing_data.csv").is_file()]
    if not places:
        raise UserError(
            f"testing_data.csv is in neither {folder} nor {folder / 'mscc'}. Name the folder with data.folder."
        )
    return read_questions(places[0] / "testing_data.csv", places[0] / "test_answer.csv")


def check(recipe: Recipe) -> None:
    """Refuse a recipe whose text has no questions, before it is trained."""
    challenge(recipe.data)


def completed(run: Run, corpus: Corpus, step: str, kind: str) -> dict[str, Any]:
    """The study step `complete`."""
    asked = challenge(run.recipe.data)
    return result(run, asked, choose(run, asked, kind), kind)


def choose(run: Run, asked: list[Question], kind: str) -> Answered:
    """The choices with log Z and without it."""
    with progress("complete", len(asked), "questions") as advance:
        return answer(run.scorer(normalized=True, calibration=kind), asked, advance)


def result(run: Run, asked: list[Question], found: Answered, kind: str, ngram: Path | None = None) -> dict[str, Any]:
    """Everything the report needs; `row` is what a table shows of it."""
    numbers = summary(asked, found)
    words = words_read(run)
    row = {
        "model": label(run.recipe.criterion.name),
        "d": run.recipe.model.d,
        "words read": f"{words / 1e6:.1f} M",
        "calibration": kind,
        **{name: f"{numbers[name]:.2f}" for name in ("acc_n", "delta_acc", "perplexity", "sigma_z")},
        "p (McNemar)": f"{numbers['mcnemar_p']:.3f}",
    }
    if ngram is not None:
        numbers["ngram"] = _beside(run, asked, found, ngram)
        row["n-gram"] = f"{numbers['ngram']['accuracy']:.2f}"
    about = {
        "signature": signature(run.recipe, "questions", kind, trained_epochs(run.folder)),
        "words_read": words,
        "command": command_line(),
        "date": today(),
        "machine": machine(),
    }
    return {"kind_of_result": COMPLETION, "row": row, **about, **numbers}


def _beside(run: Run, asked: list[Question], found: Answered, path: Path) -> dict[str, Any]:
    chosen = answer_with_ngram(Ngram(path), asked, run.tokenize)
    return {"file": path.name, **asdict(versus(asked, found.normalized, chosen))}


def words_read(run: Run) -> int:
    """Training tokens seen by the weights in use, counted again in every epoch."""
    text = int(run.vocab.counts.sum())
    best = best_line(read_history(run.file("history.jsonl"))) or {"epoch": 0}
    return round(float(best["epoch"]) * min(text, run.recipe.data.max_words or text))

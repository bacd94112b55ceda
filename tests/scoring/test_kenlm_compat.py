"""The kenlm interface: every call of kenlm, on kenlm and on ours, in one table that the documentation shows."""

from __future__ import annotations

import copy
import os
import pickle
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import selfnorm as sn
from selfnorm.scoring import kenlm_compat

from ..conftest import write_text
from ..tasks.test_ngram import ARPA

kenlm = pytest.importorskip("kenlm")
DOC = Path(__file__).parents[2] / "docs" / "kenlm.md"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("kenlm")
    (base / "lm.arpa").write_text(ARPA)
    small = {"d": 8, "epochs": 1, "batch": 4, "steps": 8, "k": 5}
    run = sn.train(base / "run", text=write_text(base / "t.txt"), criterion="nce", progress=False, **small)
    return base / "lm.arpa", run.folder


def stepped(module: types.ModuleType, path: Path) -> Any:
    model, one, two = module.Model(str(path)), module.State(), module.State()
    model.BeginSentenceWrite(one)
    total = 0.0
    for word in ("the", "cat", "</s>"):
        total += model.BaseScore(one, word, two)
        one, two = two, one
    return total == pytest.approx(model.score("the cat"), abs=1e-4)


def same_state(module: types.ModuleType, path: Path) -> Any:
    model, one, two, other = module.Model(str(path)), module.State(), module.State(), module.State()
    model.BeginSentenceWrite(one)
    model.BeginSentenceWrite(two)
    model.BaseScore(one, "the", other)
    copied = copy.copy(one)
    return (
        one == two,
        hash(one) == hash(two),
        one != other,
        copied == one,
        (one < other) != (other < one),
    )


def full(module: types.ModuleType, path: Path) -> Any:
    model, one, two = module.Model(str(path)), module.State(), module.State()
    model.NullContextWrite(one)
    found = model.BaseFullScore(one, "zzz", two)
    return (isinstance(found.log_prob, float), isinstance(found.ngram_length, int), found.oov)


def missing(module: types.ModuleType, path: Path) -> Any:
    with pytest.raises(OSError, match="Cannot read model"):
        module.Model(str(path) + "-not-there")
    return "OSError"


def configured(module: types.ModuleType, path: Path) -> Any:
    config = module.Config()
    config.load_method = module.LoadMethod.LAZY
    config.arpa_complain = module.ARPALoadComplain.NONE
    config.show_progress = False
    return isinstance(module.LanguageModel(str(path), config).score("the"), float)


CALLS: dict[str, Callable[[types.ModuleType, Path], Any]] = {
    "issubclass(LanguageModel, Model)": lambda m, p: issubclass(m.LanguageModel, m.Model),
    "LanguageModel(path, Config())": configured,
    "Model(bytes)": lambda m, p: isinstance(m.Model(os.fsencode(p)).score("the"), float),
    "Model(missing path)": missing,
    "model.path": lambda m, p: m.Model(str(p)).path == os.fsencode(p),
    "model.order": lambda m, p: isinstance(m.Model(str(p)).order, int),
    "word in model": lambda m, p: ["the" in m.Model(str(p)), "zzz" in m.Model(str(p)), b"the" in m.Model(str(p))],
    "score(text) == score(bytes)": lambda m, p: m.Model(str(p)).score("the cat") == m.Model(str(p)).score(b"the cat"),
    "score(7)": lambda m, p: type(_raised(lambda: m.Model(str(p)).score(7))).__name__,
    "score = Σ full_scores": lambda m, p: (
        m.Model(str(p)).score("the cat")
        == pytest.approx(sum(x for x, _, _ in m.Model(str(p)).full_scores("the cat")), abs=1e-4)
    ),
    "full_scores: out of vocabulary": lambda m, p: [oov for _, _, oov in m.Model(str(p)).full_scores("the zzz")],
    "perplexity": lambda m, p: m.Model(str(p)).perplexity("the cat") > 1,
    "score of nothing": lambda m, p: isinstance(m.Model(str(p)).score(""), float),
    "BeginSentenceWrite, BaseScore": stepped,
    "NullContextWrite, BaseFullScore": full,
    "State: ==, hash, !=, copy, <": same_state,
    "pickle": lambda m, p: pickle.loads(pickle.dumps(m.Model(str(p)))).score("the") == m.Model(str(p)).score("the"),
    "repr": lambda m, p: repr(m.Model(str(p))).startswith("<"),
}


def _raised(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def table(places: tuple[Path, Path]) -> str:
    rows = ["| call | kenlm | selfnorm |", "| --- | --- | --- |"]
    for name, call in CALLS.items():
        rows.append(f"| `{name}` | {call(kenlm, places[0])} | {call(kenlm_compat, places[1])} |")
    return "\n".join(rows)


@pytest.mark.parametrize("name", CALLS)
def test_each_call_does_on_ours_what_it_does_on_kenlm(name: str, places: tuple[Path, Path]) -> None:
    assert CALLS[name](kenlm_compat, places[1]) == CALLS[name](kenlm, places[0])


def test_a_copy_in_another_process_scores_as_the_model_does(places: tuple[Path, Path]) -> None:
    plain = kenlm_compat.Model(str(places[1]))
    exact = kenlm_compat.Model(str(places[1]), normalized=True)
    raw = kenlm_compat.Model(str(places[1]), calibration="none")
    assert exact.score("the cat") != plain.score("the cat")
    for model in (plain, exact, raw):
        for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            assert again.score("the cat") == model.score("the cat") and again.path == model.path


def test_every_public_name_of_kenlm_is_there() -> None:
    public = {name for name in vars(kenlm) if not name.startswith("_") and name != "os"}
    assert public <= set(vars(kenlm_compat))
    for name in ("LanguageModel", "Config", "State", "LoadMethod", "ARPALoadComplain", "FullScoreReturn"):
        members = {member for member in dir(getattr(kenlm, name)) if not member.startswith("_")}
        ours = getattr(kenlm_compat, name)
        assert members <= set(dir(ours() if name in ("Config", "State") else ours)) | {"path"}


def test_the_table_in_the_documentation_is_this_one(places: tuple[Path, Path]) -> None:
    assert table(places) in DOC.read_text(encoding="utf-8")


def test_a_second_argument_that_is_no_config_is_refused(places: tuple[Path, Path]) -> None:
    with pytest.raises(TypeError, match="normalized= is a keyword"):
        kenlm_compat.Model(places[1], True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="open Scorer"):
        pickle.dumps(kenlm_compat.Model(sn.load(places[1])))
    assert kenlm_compat.Model(places[1], calibration="none").score("the") < 0
    state = kenlm_compat.State()
    kenlm_compat.Model(places[1]).BeginSentenceWrite(state)
    assert copy.deepcopy(state) == state  # kenlm's own fails here

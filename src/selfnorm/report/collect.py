"""Find measurements and histories under a folder. JSON in, plain records out; no torch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from selfnorm._util.change import checked_if_listed
from selfnorm._util.errors import UnknownName, UserError
from selfnorm._util.files import read_json
from selfnorm._util.schema import check
from selfnorm.config.criterion import pins
from selfnorm.config.recipe import CriterionSettings
from selfnorm.config.schemas import result
from selfnorm.config.signature import parse_signature, signature_parts
from selfnorm.config.toml import from_table, read_recipe
from selfnorm.evaluation.measurement import Measurement, as_measurement
from selfnorm.registry.criteria import CRITERIA, CriterionInfo, label
from selfnorm.registry.datasets import DATASETS
from selfnorm.runs.history import read_history, text_of

TEXT = ("min_count=", "tokens=")  # settings of the text


class LeftOut(UserWarning):
    """A run that the report cannot show."""


@dataclass(frozen=True)
class Record:
    """One measurement with the parts of its signature, and the folder it came from."""

    run: str
    measured: Measurement
    parts: dict[str, str]

    @property
    def name(self) -> str:
        """SM-LM, or DEV-LM α=0.1 where a penalty has a weight; then whatever of the criterion is not the usual."""
        alpha, own = self.parts.get("alpha", "0"), CRITERIA.get(self.parts["criterion"], CriterionInfo("", "no", ""))
        weighs = float(alpha) > 0
        first = label(self.parts["criterion"]) + (f" α={alpha}" if weighs else "")
        usual = {"gamma": f"{own.gamma:g}", "penalty": own.penalty if weighs else "none", "subset": own.subset}
        usual |= {"noise": "unigram", "shared": "window"}
        phrases = {
            "gamma": "γ={}",
            "penalty": "{} penalty",
            "subset": "D' in {}",
            "noise": "noise {}",
            "shared": "noise per {}",
        }
        said = [key for key in usual if self.parts.get(key, usual[key]) != usual[key]]
        if self.parts.get("gamma", "1") == "1":
            said = [key for key in said if key != "subset"]
        if not (own.draws or self.parts.get("penalty") == "sampled"):
            said = [key for key in said if key not in ("noise", "shared")]
        return ", ".join([first, *(phrases[key].format(self.parts[key]) for key in said)])

    @property
    def extras(self) -> list[str]:
        """Whatever of the model, its text and its training is not the usual."""
        words = self.parts.get("max_words")
        encoder, squash = self.parts.get("encoder", "lstm2"), self.parts.get("squash", "no")
        more = [encoder] if encoder != "lstm2" else []
        more += ["squash"] if squash == "yes" else []
        more += [f"{int(words):,} words"] if words else []
        return more + [other for other in self.parts.get("others", "").split(",") if other]

    @property
    def full_name(self) -> str:
        return ", ".join([self.name, *self.extras])

    @property
    def pins(self) -> str:
        """What the criterion, as it was set, does to log Z."""
        name, alpha = self.parts["criterion"], float(self.parts.get("alpha", "0"))
        penalty = self.parts.get("penalty", "") if alpha > 0 else ""
        return pins(CriterionSettings(name=name, alpha=alpha, penalty=penalty)) if name in CRITERIA else "?"

    @property
    def k(self) -> str:
        """The number of noise words, where the criterion draws any."""
        drawn = self.parts["criterion"] in CRITERIA and CRITERIA[self.parts["criterion"]].draws
        return self.parts.get("k", "–") if drawn else "–"

    @property
    def unusual_k(self) -> str:
        """ ", k = 1000" behind a name where the noise words are not the usual 100."""
        return f", k = {self.k}" if self.k not in ("100", "–") else ""

    @property
    def calibration(self) -> str:
        return self.parts.get("calibration", "none")

    @property
    def text(self) -> str:
        """The text and what changes its words or vocabulary: perplexities compare only within one of these."""
        return ", ".join([self.parts["data"], *filter(is_of_text, self.extras)])


def is_of_text(extra: str) -> bool:
    """Does this unusual setting change the text or its vocabulary?"""
    return extra.startswith(TEXT) or extra.endswith(" words")


def in_common(records: Sequence[Record]) -> list[str]:
    """The unusual settings all of them have, which belong above a table rather than into its rows."""
    return [extra for extra in records[0].extras if all(extra in r.extras for r in records)] if records else []


def name_beside(record: Record, records: Sequence[Record]) -> str:
    """The name that tells a record from the others in the same table."""
    common = in_common(records)
    return ", ".join([record.name, *(extra for extra in record.extras if extra not in common)])


@dataclass(frozen=True)
class Collected:
    records: list[Record]
    histories: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    others: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # completion, rescoring, … by kind
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)  # by run: {"model.d": 100, …}
    calibrations: dict[str, dict[str, Any]] = field(default_factory=dict)  # by run: what calibration.json says
    studies: dict[str, dict[str, Any]] = field(default_factory=dict)  # by folder: what study.json says

    def of_run(self, kind: str, run: str) -> dict[str, Any]:
        """That kind of result of one run; nothing if there is none."""
        return next((table for table in self.others.get(kind, []) if table["run"] == run), {})


def collect(folder: Path) -> Collected:
    """Every measurement below `folder`, in a stable order."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder. Name one that holds runs, or results made by selfnorm measure.")
    records, histories, others = [], {}, dict[str, list[dict[str, Any]]]()
    settings, unknown = _settings(folder)
    for path in sorted(folder.rglob("*.json")):
        if _run(path, folder) in unknown:
            continue
        table = _table(path)
        if "kind_of_result" in table and isinstance(table.get("row"), dict):
            check(table, result, path, "Remove it or make it again.")
            others.setdefault(str(table["kind_of_result"]), []).append({**table, "run": _run(path, folder)})
        elif "signature" in table and "mu_z" in table:
            measured = as_measurement(table, path)
            records.append(Record(_run(path, folder), measured, parts_of(measured)))
    for path in sorted(folder.rglob("history.jsonl")):
        if _run(path, folder) not in unknown:
            histories[_run(path, folder)] = read_history(path)
    calibrations = {_run(path, folder): _table(path) for path in sorted(folder.rglob("calibration.json"))}
    studies = {_place(path, folder): _table(path) for path in sorted(folder.rglob("study.json"))}
    records = _told_apart(records, settings, folder)
    if not records and not others:
        raise UserError(f"No measurement was found below {folder}. Make one with: selfnorm measure RUN")
    return Collected(records, histories, others, settings, calibrations, studies)


def _told_apart(records: list[Record], settings: dict[str, dict[str, Any]], folder: Path) -> list[Record]:
    """Two texts of the user's that have one name, or one that was changed, are two: they get the start of their fingerprint.

    In the records and in the settings of their runs.
    """
    prints = {r.run: text_of(folder if r.run == folder.name else folder / r.run) for r in records}
    by_name: dict[str, set[str]] = {}
    for r in records:
        by_name.setdefault(r.parts["data"], set()).add(prints[r.run])
    several = {name for name, found in by_name.items() if name not in DATASETS and len(found - {""}) > 1}
    for place, r in enumerate(records):
        if r.parts["data"] in several:
            name = f"{r.parts['data']} [{prints[r.run][:6] or '?'}]"
            records[place] = replace(r, parts={**r.parts, "data": name})
            settings.get(r.run, {})["data.name"] = name
    return records


def parts_of(measured: Measurement) -> dict[str, str]:
    """What a measurement depends on, from the recipe stored with it; results of older versions have the signature only."""
    if not measured.recipe:
        return parse_signature(measured.signature)
    recipe = from_table(measured.recipe, "the recipe of a measurement")
    parts = signature_parts(recipe, measured.split, measured.calibration, measured.trained, measured.fitted)
    return {**parts, "version": parse_signature(measured.signature).get("version", "")}


def _settings(folder: Path) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """The settings of every run, and the runs whose criterion or encoder is not known here: they are left out with a warning."""
    settings, unknown = dict[str, dict[str, Any]](), set[str]()
    for path in sorted(folder.rglob("recipe.toml")):
        try:
            settings[_run(path, folder)] = _flat(path)
        except UnknownName as error:
            warnings.warn(f"{path.parent} is left out: {error}", LeftOut, stacklevel=2)
            unknown.add(_run(path, folder))
    return settings, unknown


def _flat(path: Path) -> dict[str, Any]:
    """Every setting of a recipe: {"model.d": 100, …}."""
    return {
        f"{section}.{key}": value for section, own in asdict(read_recipe(path)).items() for key, value in own.items()
    }


def _place(path: Path, folder: Path) -> str:
    below = path.parent.relative_to(folder).as_posix()
    return "" if below == "." else below


def _run(path: Path, folder: Path) -> str:
    """A run by its place below the folder: two runs of one name in two places are two runs."""
    return _place(path, folder) or path.parent.name


def _table(path: Path) -> dict[str, Any]:
    table = read_json(checked_if_listed(path))
    return table if isinstance(table, dict) else {}

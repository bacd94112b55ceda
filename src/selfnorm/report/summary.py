"""The card at the top of the page: what was run, the best models, and one sentence. Every word follows from the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from selfnorm.report.collect import Collected, Record
from selfnorm.report.number import number
from selfnorm.report.paper import cells, expected, found
from selfnorm.report.table import Table, without_empty_columns
from selfnorm.report.tables import by_text

HEAD = ["text", "split", "runs", "best model", "perplexity", "σ_z raw", "σ_z calibrated", "lowest σ_z raw"]


@dataclass(frozen=True)
class Summary:
    sentence: str
    facts: list[str]
    table: Table


def summary(collected: Collected, paper: bool) -> Summary | None:
    """Nothing where only tasks were measured."""
    if not collected.records:
        return None
    groups = _shown(collected.records)
    rows = [_row(text, split, group) for (text, split), group in groups.items()]
    head, rows = without_empty_columns(HEAD, rows)
    largest = max(groups, key=lambda key: len({r.run for r in groups[key]}))
    facts = [_count(collected), *([_paper(collected.records)] if paper else [])]
    return Summary(
        _sentence(*largest, groups[largest]), [fact for fact in facts if fact], Table("Best models", head, rows)
    )


def _shown(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """One split of each text: the test split where that was measured."""
    groups = by_text(records)
    kept = {key: group for key, group in groups.items() if key[1] == _split(key[0], groups)}
    return dict(sorted(kept.items(), key=lambda pair: -len({r.run for r in pair[1]})))


def _split(text: str, groups: dict[tuple[str, str], list[Record]]) -> str:
    splits = [split for other, split in groups if other == text]
    return next((split for split in ("test", "valid") if split in splits), splits[0])


def _best(group: Sequence[Record]) -> Record:
    """The lowest perplexity; a calibration does not change it, so the raw measurement stands for the run."""
    return min(group, key=lambda r: (round(r.measured.perplexity, 4), r.calibration != "none"))


def _raw(record: Record, group: Sequence[Record]) -> Record | None:
    return next((r for r in group if r.run == record.run and r.calibration == "none"), None)


def _calibrated(record: Record, group: Sequence[Record]) -> Record | None:
    """The calibration of the same run that leaves the least spread."""
    own = [r for r in group if r.run == record.run and r.calibration != "none"]
    return min(own, key=lambda r: r.measured.sigma_z, default=None)


def _row(text: str, split: str, group: Sequence[Record]) -> list[str]:
    best = _best(group)
    raw, after = _raw(best, group), _calibrated(best, group)
    plain = [r for r in group if r.calibration == "none" and r.pins != "normalized"]
    flat = min(plain, key=lambda r: r.measured.sigma_z, default=None)
    return [
        text, split, str(len({r.run for r in group})), _named(best), number(best.measured.perplexity, 1),
        number(raw.measured.sigma_z, 3) if raw else "",
        f"{number(after.measured.sigma_z, 4)} ({after.calibration})" if after else "",
        f"{number(flat.measured.sigma_z, 3)} ({_named(flat)}, {number(flat.measured.perplexity, 1)})" if flat else "",
    ]  # fmt: skip


def _named(record: Record) -> str:
    return f"{record.name}{record.unusual_k}, d = {record.parts['d']}"


def _sentence(text: str, split: str, group: Sequence[Record]) -> str:
    best = _best(group)
    raw, after = _raw(best, group), _calibrated(best, group)
    runs, perplexity = len({r.run for r in group}), number(best.measured.perplexity, 1)
    said = f"On {text} ({split}) the best of {runs} runs is {_named(best)}, with perplexity {perplexity}."
    if raw is None:
        return said
    said += f" As trained, σ_z is {number(raw.measured.sigma_z, 3)}, and its scores taken as log-probabilities give u_perplexity {_u(raw)}"
    if after is None:
        return f"{said}; no calibration of it was measured."
    return (
        f"{said}; after {after.calibration}, σ_z is {number(after.measured.sigma_z, 4)} and u_perplexity {_u(after)}."
    )


def _u(record: Record) -> str:
    return number(record.measured.u_perplexity, 1)


def _count(collected: Collected) -> str:
    runs = {r.run for r in collected.records} | set(collected.histories)
    texts = list(dict.fromkeys(r.parts["data"] for r in collected.records))
    times = len({r.parts["criterion"] for r in collected.records})
    waiting = len(runs - {r.run for r in collected.records})
    more = f" Not measured yet: {waiting} of them." if waiting else ""
    return (
        f"{len(runs)} runs, {times} criteria, {len(collected.records)} measurements; texts: {', '.join(texts)}.{more}"
    )


def _paper(records: Sequence[Record]) -> str:
    """How many cells of Tables 1 to 5 were run, and how near they are."""
    every = [cell for table in expected()["table"] for cell in cells(table)]
    ours = [(cell, some) for cell in every for some in [found(cell, records)] if some]
    if not ours:
        return ""
    gaps = [_gap(cell, some, "perplexity", True) for cell, some in ours if "perplexity" in cell]
    spreads = [_gap(cell, some, "sigma_z", False) for cell, some in ours if "sigma_z" in cell]
    said = f"{len(ours)} of the {len(every)} cells of the paper's Tables 1 to 5 were run."
    if gaps:
        said += (
            f" Perplexity differs from the paper's by {100 * median(gaps):.1f} % in the median and {100 * max(gaps):.1f} % at most,"
            f" σ_z by {median(spreads):.3f} and {max(spreads):.3f} (where noise words were drawn in two ways, the nearer)."
        )
    return said


def _gap(cell: dict[str, float], some: list[tuple[str, list[Record]]], name: str, share: bool) -> float:
    """The distance from the paper of the nearest way to draw noise words."""
    values = [sum(float(getattr(r.measured, name)) for r in ours) / len(ours) for _, ours in some]
    return min(abs(value / cell[name] - 1) if share else abs(value - cell[name]) for value in values)

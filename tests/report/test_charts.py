"""Charts: labels that do not cover each other, colours that are few, panels with shared axes, every chart drawn."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from selfnorm.registry.calibrations import multiply_adds
from selfnorm.report.charts.against_v import against_v
from selfnorm.report.charts.entropy import entropy
from selfnorm.report.charts.figure import svg
from selfnorm.report.charts.frontier import frontier
from selfnorm.report.charts.labels import Box, Label, _box, place
from selfnorm.report.charts.log_z import log_z
from selfnorm.report.charts.theme import COLOURS, GROUPS
from selfnorm.report.collect import collect
from selfnorm.report.sections import sections

from ..studies.test_study import HISTOGRAM, made_up

RESULTS = Path(__file__).parent.parent.parent / "results"
POINTS = st.lists(st.tuples(st.floats(0, 400), st.floats(0, 300)), min_size=1, max_size=25)


@given(POINTS)
def test_labels_cover_neither_each_other_nor_a_point(points: list[tuple[float, float]]) -> None:
    texts = [f"model {i}" for i, _ in enumerate(points)]
    labels = place(points, texts, 400, 300)
    boxes = [_box(x, y, t, one) for (x, y), t, one in zip(points, texts, labels, strict=True) if one.align]
    assert not [1 for a, b in combinations(boxes, 2) if a.covers(b)]
    assert not [1 for box in boxes for x, y in points if box.covers(Box(x - 1, y - 1, x + 1, y + 1))]
    assert all(box.left >= 0 and box.right <= 400 for box in boxes)


def test_a_label_with_room_stands_to_the_right() -> None:
    assert place([(100, 100)], ["NCE-LM"], 400, 300) == [Label(7.0, 0, "left")]


def test_colours_are_never_used_twice() -> None:
    assert len(set(COLOURS)) == len(COLOURS) and len({colour for _, colour in GROUPS.values()}) == len(GROUPS)


def test_a_frontier_joins_a_model_before_and_after_calibration() -> None:
    raw = [
        replace(made_up(n, 100, "test", perplexity=p, sigma_z=s), run=n)
        for n, p, s in (("nce", 150.0, 0.2), ("softmax", 140.0, 1.5))
    ]
    after = replace(made_up("softmax", 100, "test", "mlp", perplexity=140.0, sigma_z=0.02), run="softmax")
    figure = frontier([*raw, after], "ptb, test")
    assert figure is not None and "Lowest σ_z as trained: NCE-LM, 0.200" in figure.alt
    rows = figure.panels[0]["data"]["values"]
    assert {(row["run"], row["calibration"]) for row in rows} == {
        ("nce", "none"),
        ("softmax", "none"),
        ("softmax", "mlp"),
    }
    assert [row["label"] for row in rows if row["calibration"] == "mlp"] == [""], "one label for a model"
    assert frontier(raw[:1], "x") is None


def test_wide_and_narrow_models_have_panels_of_their_own() -> None:
    records = [replace(made_up(n, 100, "test", sigma_z=s), run=n) for n, s in (("nce", 0.2), ("softmax", 1.5))]
    records = [replace(r, measured=replace(r.measured, histogram=HISTOGRAM)) for r in records]
    figure = log_z(records, "x")
    assert figure is not None
    shown = [({row["model"] for row in panel["data"]["values"]}, panel["title"]) for panel in figure.panels]
    assert shown == [({"SM-LM"}, "wide: σ_z above 0.5"), ({"NCE-LM"}, "narrow: σ_z up to 0.5")]


def test_entropy_panels_have_the_same_axes() -> None:
    one, two = ({"counts": [[1, 2], [3, 4]], "entropy": [0, top], "log_z": [-top, 1]} for top in (5.0, 7.0))
    records = [made_up("nce", d, "test") for d in (30, 100)]
    records = [
        replace(r, measured=replace(r.measured, entropy_histogram=h)) for r, h in zip(records, (one, two), strict=True)
    ]
    figure = entropy(records, "x")
    assert figure is not None
    domains = [
        (p["layer"][0]["encoding"]["x"]["scale"]["domain"], p["layer"][0]["encoding"]["y"]["scale"]["domain"])
        for p in figure.panels
    ]
    assert domains == [([0, 7.0], [-7.0, 1])] * 2 and "-0.30 for NCE-LM at d = 30" in figure.caption


def test_the_cost_of_an_estimate() -> None:
    assert multiply_adds("shift", 100, {}) == 0 and multiply_adds("screen", 100, {}) is None
    assert multiply_adds("mlp", 4, {"hidden": [3, 2], "frequent": 10}) == 10 * 4 + 5 * 3 + 3 * 2 + 2
    assert multiply_adds("mlp", 4, {"hidden": [3]}) == 4 * 3 + 3


def test_a_chart_of_each_kind_of_the_committed_results_is_drawn() -> None:
    figures = [figure for part in sections(collect(RESULTS), "results", True, True) for figure in part.figures]
    kinds = {figure.title.partition(":")[0]: figure for figure in figures}
    assert {"σ_z against perplexity", "log Z", "Entropy and log Z", "Cost of the estimate", "Training"} <= set(kinds)
    for title, figure in kinds.items():
        drawn = svg(figure)
        assert drawn.startswith("<svg") and drawn.count("<text") > 5, title


def test_benchmarks_are_drawn_one_panel_for_each_size() -> None:
    rows = [
        {"criterion": n, "V": v, "d": d, "seconds": 0.1} for n in ("nce", "softmax") for v in (10, 100) for d in (8, 16)
    ]
    figure = against_v(rows, "seconds", "steps")
    assert [panel["title"] for panel in figure.panels] == ["d = 8", "d = 16"] and "ms per step" in svg(figure)

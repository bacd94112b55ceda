"""The page: a summary made of the numbers, unique ids, alternative texts, nothing loaded from outside, small."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from selfnorm.cli import main
from selfnorm.report.collect import Collected, LeftOut, collect
from selfnorm.report.number import number
from selfnorm.report.page import write_report
from selfnorm.report.summary import summary

from ..studies.test_study import made_up

RESULTS = Path(__file__).parent.parent.parent / "results"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("page") / "r.html"
    write_report(RESULTS, out)
    return out.read_text(encoding="utf-8")


def own(page: str) -> str:
    """The page without the drawing library."""
    return page[: page.index('id="library"')]


def test_ids_are_unique_and_links_lead_somewhere(page: str) -> None:
    ids = Counter(re.findall(r'\sid="([^"]+)"', page))
    assert len(ids) > 100 and not [name for name, count in ids.items() if count > 1]
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_every_figure_has_an_alternative_text_and_a_chart_that_is_json(page: str) -> None:
    charts = re.findall(r'class="chart" role="img" aria-label="([^"]+)" data-spec="([^"]+)"', page)
    assert len(charts) > 20 and all(len(text) > 30 for text, _ in charts)
    for _, spec in charts:
        (text,) = re.findall(rf'id="{re.escape(spec)}">(.+?)</script>', page)
        assert json.loads(text)["concat"]


def test_it_is_below_five_megabytes_and_loads_nothing(page: str) -> None:
    assert len(page.encode()) < 5_000_000
    assert not re.search(r"<(?:script|link|img|iframe)[^>]*\s(?:src|href)=", own(page))


def test_it_opens_with_the_summary_and_ends_with_what_was_not_run(page: str) -> None:
    titles = re.findall(r"<h2>([^<]+)</h2>", own(page))
    assert titles[-2:] == ["Not run", "Signatures"] and page.index('id="summary"') < page.index("<h2>")
    first = page[: page.index("<h2>Not run")]
    assert "selfnorm study run paper/table1" not in first


def test_the_sentence_says_what_the_numbers_say() -> None:
    raw = [
        replace(made_up("softmax", 100, "test", perplexity=139.4, sigma_z=1.345, u_perplexity=7.5), run="sm"),
        replace(made_up("nce", 100, "test", perplexity=146.7, sigma_z=0.17, u_perplexity=171.5), run="nce"),
    ]
    after = replace(
        made_up("softmax", 100, "test", "mlp", perplexity=139.4, sigma_z=0.024, u_perplexity=139.5), run="sm"
    )
    found = summary(Collected([*raw, after]), paper=False)
    assert found is not None
    assert "the best of 2 runs is SM-LM, d = 100, with perplexity 139.4" in found.sentence
    assert "σ_z is 1.345" in found.sentence and "u_perplexity 7.5" in found.sentence
    assert "after mlp, σ_z is 0.0240 and u_perplexity 139.5" in found.sentence
    alone = summary(Collected(raw[1:]), paper=False)
    assert alone is not None and alone.sentence.endswith("no calibration of it was measured.")
    row = dict(zip(found.table.head, found.table.rows[0], strict=True))
    assert row["lowest σ_z raw"] == "0.170 (NCE-LM, d = 100, 146.7)"


def test_the_committed_summary_agrees_with_the_committed_results() -> None:
    collected = collect(RESULTS)
    found = summary(collected, paper=True)
    assert found is not None
    best = min(
        (r for r in collected.records if r.text == "ptb" and r.parts["split"] == "test"),
        key=lambda r: r.measured.perplexity,
    )
    assert f"perplexity {number(best.measured.perplexity, 1)}" in found.sentence


@pytest.mark.parametrize(
    ("value", "text"), [(0.17, "0.1700"), (3.2e-7, "3.2e-7"), (0.0, "0"), (-4.9e-5, "-4.9e-5"), (float("nan"), "–")]
)
def test_tiny_numbers_are_not_written_as_zeros(value: float, text: str) -> None:
    assert number(value, 4) == text


def test_figures_are_written_with_real_text_and_as_pictures(tmp_path: Path) -> None:
    for name, sigma in (("nce", 0.2), ("softmax", 1.5)):
        made_up(name, 100, "test", sigma_z=sigma).measured.write(tmp_path / "in" / name / "test.json")
    command = ["report", str(tmp_path / "in"), "-o", str(tmp_path / "r.html"), "--figures", str(tmp_path / "figures")]
    assert main(command) == 0
    (drawn,) = (tmp_path / "figures").glob("sigma-z-against-perplexity-*.svg")
    assert {"perplexity (exact)", "σ_z", "SM-LM"} <= set(
        re.findall(r"<text[^>]*>([^<]+)</text>", drawn.read_text("utf-8"))
    )
    assert drawn.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_the_committed_tables_are_current(tmp_path: Path) -> None:
    write_report(RESULTS, tmp_path / "t.md")
    stored = RESULTS.parent / "docs" / "reproduction-tables.md"
    assert (tmp_path / "t.md").read_text("utf-8") == stored.read_text("utf-8"), (
        "selfnorm report results -o docs/reproduction-tables.md"
    )


def test_a_run_of_an_unknown_encoder_is_left_out_with_a_warning(tmp_path: Path) -> None:
    for name, encoder in (("known", "lstm"), ("own", "window3")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.toml").write_text(f'[model]\nencoder = "{encoder}"\n')
        (tmp_path / name / "valid.json").write_text(json.dumps(asdict(made_up("nce", 100).measured)))
    with pytest.warns(LeftOut, match=r"own is left out.*SELFNORM_PLUGINS"):
        found = collect(tmp_path)
    assert {r.run for r in found.records} == {"known"} and "own" not in found.settings

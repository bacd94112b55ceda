"""The report in a real browser: opened, sorted, filtered, hovered, collapsed; on a desktop and on a phone."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Page

from .conftest import Watched

PTB = "section-2"
CONTRAST = """() => {
  const light = c => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const e of document.querySelectorAll('h1,h2,h3,p,li,a,td,th,button,label,summary,span,figcaption,code')) {
    if (!e.textContent.trim() || !e.checkVisibility()) continue;
    const a = luminance(parse(getComputedStyle(e).color)), b = luminance(behind(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${e.tagName} ${ratio.toFixed(2)} ${e.textContent.slice(0, 40)}`);
  }
  return low;
}"""


def column(page: Page, table: str, head: str) -> list[str]:
    """The visible cells of a column."""
    return page.evaluate(
        """([id, head]) => {
          const table = document.getElementById(id), heads = [...table.tHead.rows[0].cells].map(c => c.textContent);
          return [...table.tBodies[0].rows].filter(r => !r.hidden).map(r => r.cells[heads.indexOf(head)].textContent);
        }""",
        [table, head],
    )


def keep(page: Page, name: str) -> None:
    """A screenshot for a person to look at, where SELFNORM_SCREENSHOTS names a folder."""
    if folder := os.environ.get("SELFNORM_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_it_opens_in_time_offline_and_without_complaint(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    spent = page.evaluate("performance.timing.loadEventEnd - performance.timing.navigationStart")
    print(f"{report.stat().st_size / 1e6:.2f} MB, load event after {spent} ms")
    assert report.stat().st_size < 5_000_000
    page.click("#open-all")
    page.wait_for_function("document.querySelectorAll('.chart:not([data-drawn])').length === 0", timeout=120_000)
    assert page.locator(".chart svg").count() >= 20
    assert watched.complaints == [] and watched.asked == [report.as_uri()]
    keep(page, f"report-{page.evaluate('isDark()')}")


def test_ids_are_unique_pictures_have_texts_and_words_have_contrast(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    watched.drawn(PTB)
    twice = page.evaluate(
        "() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id); return ids.filter((x, i) => ids.indexOf(x) !== i); }"
    )
    assert twice == []
    assert page.evaluate(
        "[...document.querySelectorAll('[role=img]')].every(e => (e.getAttribute('aria-label') || '').length > 30)"
    )
    assert page.evaluate(CONTRAST) == []


def test_a_click_sorts_by_number_and_another_turns_it_round(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    watched.drawn(PTB)
    table = page.locator(f"#{PTB} .table table").first.get_attribute("id")
    assert table is not None
    head = page.locator(f"#{table} th button", has_text="sigma_z").first
    head.click()
    up = [float(text) for text in column(page, table, "sigma_z")]
    assert up == sorted(up) and len(up) > 10
    head.click()
    down = [float(text) for text in column(page, table, "sigma_z")]
    assert down == sorted(down, reverse=True) and down != up
    assert page.locator(f"#{table} th[aria-sort=descending]").count() == 1


def test_words_filter_rows_and_the_count_says_how_many(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    watched.drawn(PTB)
    box = page.locator(f"#{PTB} .table").first
    table = box.locator("table").get_attribute("id")
    assert table is not None
    everything = len(column(page, table, "model"))
    box.locator("input").fill("nce 1000")
    left = column(page, table, "model")
    assert 0 < len(left) < everything and all("NCE" in name for name in left)
    assert box.locator(".count").text_content() == f"{len(left)} of {everything}"
    box.locator("input").fill("")
    assert len(column(page, table, "model")) == everything


def test_a_section_opens_draws_and_closes_and_a_link_opens_it(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    assert page.locator("details.section[open]").count() == 0
    page.locator("nav a", has_text="Text: ptb").click()
    page.wait_for_selector(f"#{PTB}[open] .chart[data-drawn=yes] svg")
    page.locator(f"#{PTB} > summary").click()
    assert page.locator(f"#{PTB}[open]").count() == 0
    inside = page.locator(f"#{PTB} .inside a").last.get_attribute("href")
    page.evaluate("hash => { location.hash = hash; }", inside)
    page.wait_for_selector(f"{inside}:visible")


def test_hovering_a_point_shows_its_numbers(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    watched.drawn(PTB)
    point = page.locator(f"#{PTB} .chart").first.locator(".mark-symbol path[aria-roledescription=point]").first
    point.scroll_into_view_if_needed()
    point.hover(force=True)
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    words = tip.inner_text()
    assert "perplexity" in words and "sigma_z" in words and "model" in words
    keep(page, "hover")


def test_a_click_on_the_legend_shows_one_kind_alone(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    watched.drawn(PTB)
    chart = page.locator(f"#{PTB} .chart").first
    points = "[...e.querySelectorAll('.mark-symbol path[aria-roledescription=point]')]"
    pale = f"e => {points}.filter(p => Number(p.getAttribute('opacity')) < 0.2).length"
    assert chart.evaluate(pale) == 0
    chart.locator("text", has_text="leaves log Z free").first.click(force=True)
    page.wait_for_timeout(300)
    assert chart.evaluate(pale) > 5


def test_shift_and_wheel_zoom_and_the_wheel_alone_does_not(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    watched.drawn(PTB)
    chart = page.locator(f"#{PTB} .chart").first
    ticks = "e => [...e.querySelectorAll('.role-axis-label text')].map(t => t.textContent).join()"
    before = chart.evaluate(ticks)
    chart.locator(".mark-symbol path[aria-roledescription=point]").first.hover(force=True)
    page.mouse.wheel(0, 10)
    page.wait_for_timeout(200)
    assert chart.evaluate(ticks) == before
    chart.locator(".mark-symbol path[aria-roledescription=point]").first.hover(force=True)
    page.keyboard.down("Shift")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Shift")
    page.wait_for_timeout(300)
    assert chart.evaluate(ticks) != before


def test_the_theme_button_turns_page_and_figures(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    watched.drawn(PTB)
    colour = (
        "getComputedStyle(document.body).backgroundColor + document.querySelector('.chart svg').style.backgroundColor"
    )
    before = page.evaluate(colour)
    page.click("#theme")
    page.wait_for_function(f"({colour}) !== {before!r}")
    page.wait_for_timeout(300)
    assert page.evaluate(CONTRAST) == []


def test_on_a_phone_nothing_is_wider_than_the_screen(phone: Watched, report: Path) -> None:
    page = phone.open(report)
    assert page.evaluate("document.getElementById('contents').open") is False
    phone.drawn(PTB)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    widths = page.evaluate(
        f"[...document.querySelectorAll('#{PTB} .chart svg')].map(s => s.getBoundingClientRect().width)"
    )
    assert widths and max(widths) <= 390
    page.locator("#contents > summary").click()
    page.locator("nav a", has_text="Not run").click()
    assert page.evaluate("document.getElementById('contents').open") is False
    assert page.locator("details.section[open] h2", has_text="Not run").is_visible()
    assert phone.complaints == []
    keep(page, "phone")

"""The documentation site in a real browser, from a server on this machine: every page, on a desktop and on a phone."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser

from .conftest import DESKTOP, PHONE, ROOT, Watched
from .test_report import keep

SITE = ROOT / "site"
NAV = re.findall(r"^ +- .+: ([\w/.-]+)\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
TWICE = "() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id); return ids.filter((x, i) => ids.indexOf(x) !== i); }"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    if not (SITE / "index.html").exists():
        pytest.fail("there is no site. Build it with: make docs")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def desk(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(viewport=DESKTOP)
    yield Watched(context)
    context.close()


@pytest.fixture
def mobile(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    yield Watched(context)
    context.close()


@pytest.mark.parametrize("name", NAV)
def test_a_page_loads_without_complaint_and_asks_for_nothing_outside(name: str, desk: Watched, site: str) -> None:
    page = desk.page
    page.goto(f"{site}/{name}.html", wait_until="load")
    assert desk.complaints == []
    assert not [url for url in desk.asked if not url.startswith((site, "data:", "blob:"))]
    assert page.evaluate(TWICE) == []
    assert page.evaluate(
        "[...document.querySelectorAll('main img, article img')].every(i => i.alt.length > 10 && i.naturalWidth > 0)"
    )
    assert page.locator("h1").count() == 1


@pytest.mark.parametrize("name", NAV)
def test_a_page_fits_a_phone(name: str, mobile: Watched, site: str) -> None:
    page = mobile.page
    page.goto(f"{site}/{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    keep(page, "site-phone-" + name.replace("/", "-"))


def test_a_newcomer_gets_from_home_to_every_part(desk: Watched, site: str) -> None:
    page = desk.page
    page.goto(f"{site}/index.html", wait_until="networkidle")
    for words in ("A calibrated model in five minutes", "Your own text", "Command line", "Glossary"):
        page.locator("nav a", has_text=words).first.click()
        page.wait_for_load_state()
        assert words in (page.locator("h1").text_content() or ""), words


def test_search_finds_an_option(desk: Watched, site: str) -> None:
    page = desk.page
    page.goto(f"{site}/index.html", wait_until="networkidle")
    page.locator(".md-search__button").click()
    page.wait_for_timeout(1000)
    page.keyboard.type("install-completion", delay=40)
    page.get_by_text(re.compile(r"^\d+ results?$")).wait_for()
    assert page.get_by_text("Reference").count() > 1

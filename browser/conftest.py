"""A headless Chromium without a network. SELFNORM_CHROMIUM names the program, if it is not found by itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from selfnorm.report.page import write_report

ROOT = Path(__file__).parent.parent
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = os.environ.get("SELFNORM_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.fail("no Chromium found. Install Debian's package chromium, or set SELFNORM_CHROMIUM to the program.")
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "report.html"
    write_report(ROOT / "results", out)
    return out


class Watched:
    """A page that remembers what it complained of and what it asked for."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, path: Path) -> Page:
        self.page.goto(path.as_uri())
        return self.page

    def drawn(self, section: str) -> None:
        """Open a section and wait until its figures are drawn."""
        self.page.evaluate("id => { document.getElementById(id).open = true; }", section)
        count = self.page.locator(f"#{section} .chart").count()
        ready = f"document.querySelectorAll('#{section} .chart[data-drawn=\"yes\"]').length === {count}"
        self.page.wait_for_function(ready, timeout=60_000)


@pytest.fixture(params=["light", "dark"])
def watched(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Watched]:
    context = browser.new_context(viewport=DESKTOP, offline=True, color_scheme=request.param)
    yield Watched(context)
    context.close()


@pytest.fixture
def phone(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(viewport=PHONE, offline=True, has_touch=True, is_mobile=True, device_scale_factor=2)
    yield Watched(context)
    context.close()

"""What a test does with a browser, in words of the page."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.page.site import WAIT_S, Site, token_of
from tests.support.daemon import REPOSITORY

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, expect
else:  # a machine without it skips these tests, and still has to read this file
    Browser = Any
    if importlib.util.find_spec("playwright"):
        from playwright.sync_api import expect

MODULES = (Path(sys.prefix) / "npm" / "node_modules", REPOSITORY / "node_modules")

# Of a page whose cockpit or session is gone on purpose: Chromium says so by itself, and none of it is about the page.
EXPECTED = ("Failed to load resource", "net::ERR_")
__all__ = ["Browser", "Reader", "expect", "find_axe", "find_chromium", "no_browser"]


def find_chromium() -> str | None:
    """A Chromium that is installed here; `SANDBOXD_CHROMIUM` names another one."""
    names = (os.environ.get("SANDBOXD_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    return next(filter(None, (shutil.which(name) for name in names if name)), None)


def find_axe() -> Path | None:
    """axe-core's script, which `scripts/setup` fetches."""
    found = (folder / "axe-core" / "axe.min.js" for folder in MODULES)
    return next((path for path in found if path.is_file()), None)


def no_browser() -> str:
    """Why the page cannot be tried in a browser here; empty: it can."""
    if importlib.util.find_spec("playwright") is None:
        return "the page in a browser (no Playwright)"
    return "" if find_chromium() else "the page in a browser (no Chromium; as root: apt-get install chromium)"


class Reader:
    """One browser context with one page in it."""

    def __init__(self, browser: Browser, site: Site, *, width: int, dark: bool) -> None:
        self._context = browser.new_context(
            viewport={"width": width, "height": 844}, color_scheme="dark" if dark else "light", locale="en-GB"
        )
        self._context.set_default_timeout(WAIT_S * 1000)
        self._site = site
        self.name = ""
        self.page: Page = self._context.new_page()
        self._complaints: list[str] = []
        self._has_axe = False
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self._complaints.append(str(error)))

    def go(self, at: str = "") -> None:
        self._has_axe = False
        self.page.goto(f"{self._site.url}/{at}")

    def enter(self, name: str) -> None:
        """Have that person's session already, as a browser has in which they signed in before."""
        self.name = name
        self._context.add_cookies([{"name": "cockpit", "value": self._site.session(name), "url": self._site.url}])

    def sign_in(self, name: str) -> None:
        self.page.get_by_label("Your token").fill(token_of(name))
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.locator(".inbox")).to_be_visible(timeout=WAIT_S * 1000)

    def row(self, question: dict[str, Any]) -> Any:
        return self.page.locator(f'.row[data-number="{question["number"]}"]')

    def open(self, question: dict[str, Any]) -> None:
        self.row(question).click()
        expect(self.page.locator(".asks")).to_be_visible(timeout=WAIT_S * 1000)
        # What its host says of the task has come: nothing of the page moves any more.
        expect(self.page.locator(".status")).to_contain_text("the task is", timeout=WAIT_S * 1000)

    def sees(self, text: str, within: str = "body") -> None:
        expect(self.page.locator(within).first).to_contain_text(text, timeout=WAIT_S * 1000)

    def no_longer_sees(self, selector: str) -> None:
        expect(self.page.locator(selector)).to_have_count(0, timeout=WAIT_S * 1000)

    def axe(self) -> list[str]:
        """What axe-core finds against WCAG 2.2 AA, as it stands now."""
        if not self._has_axe:
            axe = find_axe()
            assert axe is not None
            self.page.evaluate(axe.read_text())  # not as a script of the page: its policy lets in none but its own
            self._has_axe = True
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        found = self.page.evaluate("(tags) => axe.run(document, {runOnly: tags, resultTypes: ['violations']})", tags)
        return [f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes']]}" for one in found["violations"]]

    def overflow(self) -> int:
        """How many pixels of the page lie beside the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def close(self) -> list[str]:
        """What the browser had to say against the page."""
        self._context.close()
        return self._complaints

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(words in message.text for words in EXPECTED):
            self._complaints.append(message.text)

"""One Chromium for all tests of the page, a browser context for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.page.browser import Browser, Reader, find_chromium, no_browser
from tests.page.site import Site, opened


@pytest.fixture(scope="module")
def chromium(node: Path) -> Iterator[Browser]:
    """A real one, or none of these tests.

    For this module alone: Playwright leaves an asyncio loop running in the thread, which the tests of others cannot have there.
    """
    if why := no_browser():
        pytest.skip(f"NOT TESTED HERE: {why}")
    from playwright.sync_api import sync_playwright

    with pytest.MonkeyPatch.context() as patch:
        # The Node that is here anyway: Playwright's own is linked with a library (libatomic) that a bare machine lacks.
        patch.setenv("PLAYWRIGHT_NODEJS_PATH", str(node))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_chromium())
            yield browser
            browser.close()


@pytest.fixture(scope="module")
def whole_site(chromium: Browser, tmp_path_factory: pytest.TempPathFactory, node: Path) -> Iterator[Site]:
    """A daemon and a cockpit for all of them."""
    with opened(tmp_path_factory.mktemp("page"), str(node)) as site:
        yield site


@pytest.fixture
def site(whole_site: Site) -> Site:
    """The same with an empty inbox: what the test before left is ended."""
    whole_site.clear()
    return whole_site


@pytest.fixture
def visit(chromium: Browser, site: Site) -> Iterator[Callable[..., Reader]]:
    """A browser of somebody's own, who has signed in; `name` None: nobody. What its console says against the page fails it."""
    readers: list[Reader] = []

    def open_one(name: str | None = "alice", *, width: int = 1280, at: str = "", dark: bool = False) -> Reader:
        readers.append(Reader(chromium, site, width=width, dark=dark))
        if name:
            readers[-1].enter(name)
        readers[-1].go(at)
        return readers[-1]

    yield open_one
    complaints = [line for reader in readers for line in reader.close()]
    assert complaints == []

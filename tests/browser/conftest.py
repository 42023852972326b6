"""A real Chromium on a real demo. Without a browser these tests are skipped, and say so; in CI they fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, sync_playwright

from harness.demo.browser import NoBrowser, open_chromium
from harness.demo.process import DemoProcess
from tests.demo_pages import Open, Visit

_IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for one file of tests: its event loop belongs to this thread, and other tests have loops of their own."""
    with sync_playwright() as playwright:
        try:
            chromium = open_chromium(playwright)
        except NoBrowser as missing:
            if _IN_CI:
                raise
            pytest.skip(str(missing))
        with chromium:
            yield chromium


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoProcess]:
    """The demo in LOCAL mode, with Temporal, on a journal of its own."""
    with DemoProcess(tmp_path_factory.mktemp("demo"), ["--local", "--mock-pause-s", "0.05"]) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, demo: DemoProcess) -> Iterator[Open]:
    """Opens a page of the demo; in the end no console may have said anything that was not expected."""
    visits: list[Visit] = []

    def open_page(
        name: str, *, width: int = 1440, height: int = 1000, dark: bool = False, at: DemoProcess | None = None
    ) -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
        )
        one = Visit(context.new_page(), at or demo)
        visits.append(one)
        one.page.on("console", lambda message: _note(one, message))
        one.page.on("pageerror", lambda error: one.said.append(str(error)))
        return one.open(name)

    yield open_page
    for one in visits:
        one.page.context.close()
        assert [words for words in one.said if not any(part in words for part in one.expected)] == []


def _note(visit: Visit, message: ConsoleMessage) -> None:
    if message.type in {"error", "warning"}:
        visit.said.append(message.text)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder for a demo of one's own."""
    return tmp_path / "data"

"""Which Chromium to drive: one that is named, one of the system's own, or Playwright's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.sync_api import Browser, Playwright

CHROMIUM_VARIABLE = "DEMO_CHROMIUM"
"""Names the browser's file."""

_ON_PATH = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class NoBrowser(Exception):
    """There is no Chromium here. Nothing was opened."""


def chromium_file(playwright: Playwright) -> Path:
    """Return the browser's file.

    Raises:
        NoBrowser: there is none.
    """
    named = os.environ.get(CHROMIUM_VARIABLE)
    on_path = (shutil.which(name) for name in _ON_PATH)
    found = [named] if named else [*filter(None, on_path), playwright.chromium.executable_path]
    for file in map(Path, found):
        if file.exists():
            return file
    raise NoBrowser(f"no Chromium on the path and none of Playwright's own; name one in {CHROMIUM_VARIABLE}")


def open_chromium(playwright: Playwright) -> Browser:
    """Start the browser.

    Raises:
        NoBrowser: there is none.
    """
    return playwright.chromium.launch(executable_path=chromium_file(playwright))

"""Headless Chromium for the tests marked `browser`; without it they are skipped, and say so."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def opened() -> Iterator[Any]:
    """The browser of playwright, or of the system where there is one."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra `browser`)")
    with sync_api.sync_playwright() as playwright:
        program = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
        try:
            found = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"no Chromium: {str(error).splitlines()[0]}; `playwright install chromium`")
        yield found
        found.close()

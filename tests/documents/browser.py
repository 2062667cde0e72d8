"""The system's own Chromium, steered for the tests. No browser is ever downloaded."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

# Chrome first: Ubuntu's chromium is a snap, or a script that asks for one, and a snap sees no temporary files.
NAMES = ("google-chrome", "google-chrome-stable", "chromium", "chromium-browser")
FLAGS = [
    "--no-sandbox",  # the tests may be run by root, as in a container
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
]
# Where a browser is known to be there, a test that is skipped would be a hole.
REQUIRED = "RECEIPTLAB_BROWSER"


def chromium() -> str | None:
    """The browser's program: the one that CHROMIUM names, else the first that is found."""
    named = os.environ.get("CHROMIUM")
    return next(filter(None, map(shutil.which, [named] if named else NAMES)), None)


def missing() -> str:
    """What is to be installed before these tests can run; nothing if all is there."""
    if importlib.util.find_spec("playwright") is None:
        return "the package playwright is missing: pip install -c constraints.txt -e '.[lab,test]'"
    if chromium() is None:
        named = os.environ.get("CHROMIUM")
        told = f"CHROMIUM={named} is no program" if named else f"none of {', '.join(NAMES)} is installed"
        return f"{told}; on Debian: apt install chromium; elsewhere set CHROMIUM to a Chromium or Chrome"
    return ""


def skip_or_fail() -> None:
    if reason := missing():
        if os.environ.get(REQUIRED) == "required":
            pytest.fail(f"{REQUIRED}=required, but {reason}")
        pytest.skip(reason)


@contextlib.contextmanager
def opened(profile: Path, **options: object) -> Iterator:
    """A browser with a fresh profile; the options are Playwright's."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium(), headless=True, args=FLAGS, **options
        )
        try:
            yield context
        finally:
            context.close()


class Complaints:
    """What a page told its console as an error that is not known to be harmless."""

    def __init__(self, page, harmless: tuple[str, ...] = ()) -> None:
        self.said: list[str] = []
        self._harmless = re.compile("|".join(harmless)) if harmless else None
        page.on("console", lambda message: self._add(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self._add(str(error)))

    def _add(self, text: str) -> None:
        if not (self._harmless and self._harmless.fullmatch(text)):
            self.said.append(text)

    def taken(self) -> list[str]:
        """All of them so far, once; in no order of time, which differs."""
        said, self.said = sorted(self.said), []
        return said


def pages_of_pdf(content: bytes) -> int:
    """How many pages a PDF has: its page objects, which Chromium writes uncompressed."""
    return len(re.findall(rb"/Type\s*/Page\b", content))

"""Chromium for tests, and pages that fail a test by whatever goes wrong in them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
TIMEOUT_MS = 20_000


def chromium_path() -> str:
    """Return where Chromium is, "" where there is none. PYMQ_CHROMIUM names it."""
    named = os.environ.get("PYMQ_CHROMIUM", "")
    return named or next((path for name in NAMES if (path := shutil.which(name))), "")


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """Run a browser in which the name evil.example means this machine."""
    arguments = ["--host-resolver-rules=MAP evil.example 127.0.0.1"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=arguments)
        yield browser
        browser.close()


class Watch:
    """What went wrong in a page: errors on its console, dialogs, failed requests, reports of its policy."""

    def __init__(self, page: Page) -> None:
        self.problems: list[str] = []
        self.expected_statuses: set[int] = set()
        page.on("console", lambda message: self._console(message.type, message.text))
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("requestfailed", self._failed)

    def _console(self, kind: str, text: str) -> None:
        # A page that says 404 is an error on the console, too.
        if kind in ("error", "warning") and not any(f"status of {each}" in text for each in self.expected_statuses):
            self.problems.append(f"console: {text}")

    def _dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _failed(self, request: Any) -> None:
        # A search that is typed on aborts the one before; leaving a page ends its requests.
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"request failed: {request.url}: {request.failure}")


@contextmanager
def opened(
    browser: Browser, *, viewport: dict[str, int] = DESKTOP, dark: bool = False, scripts: bool = True, **more: Any
) -> Iterator[tuple[Page, Watch]]:
    """Open a page of a person's own, and fail at the end when anything went wrong in it."""
    context = browser.new_context(
        viewport=viewport,
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
        **more,
    )
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    watch = Watch(page)
    try:
        yield page, watch
        assert not watch.problems, watch.problems
    finally:
        context.close()


def violations(page: Page) -> list[str]:
    """Return what axe finds wrong for people with a screen reader, or who see little."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}" for each in found]


def overflow(page: Page) -> int:
    """Return by how many pixels a page is wider than its window."""
    width: int = page.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth")
    return width

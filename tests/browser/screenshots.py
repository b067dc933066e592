"""Pictures of every page of the console, in light and in dark, for docs/console-pages.md: scripts/screenshots."""

from __future__ import annotations

import argparse
import base64
import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Error, Page

from pymq.client import Message
from pymq.client.sync import Producer, PushConsumer
from pymq.client.sync_admin import Admin
from pymq.model.names import dlq_topic
from pymq.testing.standalone import StandaloneProcess
from tests.browser.chromium import running_chromium

WINDOW: Final = {"width": 1000, "height": 640}
QUALITY: Final = 55
SETTLE_S: Final = 60.0  # until charts have some points
CAPTURES_MAX: Final = 5
STOP_TIMEOUT_S: Final = 60.0
SECRET: Final = "secret-of-the-screenshots"

# Pictures by name: an address below the context, or what leads there.
PAGES: Final[dict[str, str | Callable[[Page], None]]] = {
    "brokers": "brokers",
    "broker": "brokers/broker-a/0?q=flush",
    "topics": "topics",
    "topic": "topics/orders",
    "shrink": "topics/orders/shrink?to=2",
    "groups": "groups",
    "group": "groups/billing",
    "messages": "messages?topic=orders",
    "message": lambda page: _first(page, "messages?topic=orders"),
    "trace": lambda page: _trace(page),
    "tail": "topics/orders/tail",
    "dead-letters": "dlq/billing",
    "clients": "clients",
    "doctor": "doctor",
    "name-servers": "namesrv",
    "about": "about",
    "send": "topics/orders/send",
    "resend": "dlq/billing/resend",
    "reset": "groups/billing/reset",
    "plan": lambda page: _plan(page),
    "audit": "audit",
    "overview": "",  # last: the checks of the doctor have run
}


def _first(page: Page, path: str) -> None:
    page.goto(f"{_base(page)}/{path}")
    page.locator("tbody tr a").first.click()


def _trace(page: Page) -> None:
    _first(page, "messages?topic=orders")
    page.get_by_role("link", name="Trace").click()


def _plan(page: Page) -> None:
    page.goto(f"{_base(page)}/groups/billing/reset")
    page.get_by_label("Where").fill("end")
    page.get_by_role("button", name="Show the plan").click()


def _base(page: Page) -> str:
    return page.url.partition("/at/")[0] + "/at/default"


@contextmanager
def shop() -> Iterator[str]:
    """Run a cluster of a shop whose billing is behind; give the URL of a console that may change it."""
    with ExitStack() as stack:
        server = stack.enter_context(StandaloneProcess(settings={"traceTopicEnable": "true"}))
        command = [sys.executable, "-m", "pymq", "console", "--namesrv", server.namesrv, "--port", "0", "--json"]
        console = stack.enter_context(
            subprocess.Popen([*command, "--allow-changes"], stdout=subprocess.PIPE, text=True)
        )
        stack.callback(console.terminate)
        assert console.stdout is not None
        url = json.loads(console.stdout.readline())["console"]
        producer = stack.enter_context(Producer("checkout", namesrv=server.namesrv, trace=True))
        for topic in ("orders", "payments", "shipments", "returns"):
            producer.send(_message(topic, 0))
        for group, topic in (("billing", "orders"), ("warehouse", "orders"), ("ledger", "payments")):
            consumer = PushConsumer(group, namesrv=server.namesrv, on_message=lambda message: None, trace=True)
            consumer.subscribe(topic)
            stack.enter_context(consumer)
        for number in range(3):  # the group is known now
            producer.send(_message(dlq_topic("billing"), number))
        until_s = time.monotonic() + SETTLE_S
        number = 0
        while time.monotonic() < until_s:
            number += 1
            producer.send(_message("orders" if number % 3 else "payments", number))
            time.sleep(0.02 + 0.015 * math.sin(time.monotonic() / 20))  # so that rates go up and down
        with Admin(server.namesrv) as admin:
            admin.namesrv.put_value("settings", "color", "blue")
        yield url


def _message(topic: str, number: int) -> Message:
    body = {"order": number, "item": "red shoes", "price": 40 + number % 7, "paid": number % 2 == 0}
    return Message(topic, json.dumps(body).encode(), tags="paid", keys=f"order-{number}")


@contextmanager
def raft_group() -> Iterator[str]:
    """Run a Raft group; give the URL of its console."""
    words = ["standalone", "--shards", "1", "--namesrv-port", "0", "--port", "0", "--console-port", "0", "--json"]
    with (
        tempfile.TemporaryDirectory() as directory,
        subprocess.Popen(
            [sys.executable, "-m", "pymq", *words, "--dir", directory], stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["console"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_TIMEOUT_S)


@contextmanager
def guarded() -> Iterator[str]:
    """Run a cluster that checks users; give the URL of its console."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "admin.yml")
        file.write_text(f"accessKey: admin\nsecretKey: {SECRET}\n")
        file.chmod(0o600)
        users = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
        users["initAuthenticationUser"] = f"file:{file}"
        with StandaloneProcess(settings=users, arguments=["--console-port", "0"]) as server:
            yield server.console


def main() -> None:
    """Write the pictures into a directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    with running_chromium() as browser:
        with shop() as url:
            for dark in (False, True):
                _take_all(browser, url, PAGES, directory, dark=dark)
        with raft_group() as url:
            for dark in (False, True):
                _take_all(browser, url, {"raft": "raft"}, directory, dark=dark)
        with guarded() as url:
            for dark in (False, True):
                _take_all(browser, url, {"log-in": "login", "users": _log_in_to_users}, directory, dark=dark)


def _log_in_to_users(page: Page) -> None:
    page.goto(f"{_base(page)}/login?next=/at/default/auth")
    page.get_by_label("Access key").fill("admin")
    page.get_by_label("Secret").fill(SECRET)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/auth")


def _take_all(
    browser: Browser, url: str, pages: dict[str, str | Callable[[Page], None]], directory: Path, *, dark: bool
) -> None:
    context = browser.new_context(viewport=WINDOW, color_scheme="dark" if dark else "light")
    for name, way in pages.items():
        page = context.new_page()
        page.goto(f"{url}/at/default/about")
        if callable(way):
            way(page)
        else:
            page.goto(f"{url}/at/default/{way}")
        page.wait_for_load_state("load")
        Path(directory, f"{name}-{'dark' if dark else 'light'}.webp").write_bytes(_picture(page))
        page.close()
    context.close()


def _picture(page: Page) -> bytes:
    """Return a picture of the window. Chromium now and then has no frame to take."""
    for attempt in range(CAPTURES_MAX):
        page.evaluate("new Promise(requestAnimationFrame)")
        try:
            taken = page.context.new_cdp_session(page).send(
                "Page.captureScreenshot", {"format": "webp", "quality": QUALITY}
            )
        except Error:
            if attempt == CAPTURES_MAX - 1:
                raise
            page.reload(wait_until="load")
        else:
            return base64.b64decode(taken["data"])
    raise AssertionError


if __name__ == "__main__":
    main()

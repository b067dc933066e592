"""Messages in a real browser: found, opened, followed while they come, and downloaded."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from pymq.client import Message
from pymq.client.sync import Producer
from pymq.testing.standalone import StandaloneProcess
from tests.browser.chromium import opened, violations

HOSTILE = "<img src=x onerror=alert(1)>\u202e"
ROWS_KEPT = 500
WAIT_MS = 20_000


def rows(page: Page) -> int:
    return page.locator("#main tbody tr").count()


def test_a_message_is_found_by_its_key_opened_and_its_body_downloaded(browser: Browser, console: str) -> None:
    with opened(browser) as (page, _):
        page.goto(f"{console}/at/default/topics/orders")
        page.get_by_role("link", name="Messages", exact=True).last.click()
        expect(page.locator(".scanned")).to_contain_text("scanned 20 of 20")
        page.get_by_label("Id or key").fill("order-7")
        page.get_by_role("button", name="Find").click()
        expect(page.locator("#main tbody tr")).to_have_count(1)
        page.locator("#main tbody tr a").click()
        expect(page.locator(".tree")).to_contain_text("<b>bold</b>")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download the body").click()
        assert download.value.suggested_filename == "message-body.bin"
        page.get_by_role("link", name="Trace").click()
        expect(page.locator("svg.timeline")).to_be_visible()


def test_a_tail_shows_what_comes_keeps_so_many_rows_and_pauses(browser: Browser) -> None:
    with StandaloneProcess(arguments=["--console-port", "0"]) as server, opened(browser) as (page, _):
        with Producer("tailing", namesrv=server.namesrv) as producer:
            producer.send(Message("lively", "first"))
            page.goto(f"{server.console}/at/default/topics/lively/tail")
            state = page.locator("#tail-state")
            expect(state).to_contain_text("0 new in the last second", timeout=WAIT_MS)
            producer.send(Message("lively", HOSTILE, keys=HOSTILE))
            expect(page.locator("#main tbody tr").first).to_contain_text(
                "<img src=x onerror=alert(1)>\\u202e", timeout=WAIT_MS
            )
            page.get_by_role("button", name="Pause").click()
            for number in range(ROWS_KEPT + 100):
                producer.send(Message("lively", f"fast {number}"))
            expect(state).to_contain_text(re.compile(r"paused: [1-9]"), timeout=WAIT_MS)
            assert rows(page) == 2
            page.get_by_role("button", name="Go on").click()
            for round_ in range(4):
                for number in range(190):
                    producer.send(Message("lively", f"round {round_} {number}"))
                expect(page.locator("#main tbody")).to_contain_text(f"round {round_} 189", timeout=WAIT_MS)
            assert rows(page) <= ROWS_KEPT
        page.locator("#main tbody tr a").first.click()
        expect(page.locator("h1")).to_contain_text("Message")


# Stands for EventSource, so that a test says what comes through the stream, and when.
FAKE_STREAM = """
window.EventSource = class extends EventTarget {
  constructor(address) { super(); this.address = address; this.isOpen = true; window.stream = this; }
  close() { this.isOpen = false; }
  say(name, data) { this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data) })); }
};
"""


def test_a_search_says_how_far_it_is_and_stops(browser: Browser, console: str) -> None:
    with opened(browser) as (page, _):
        page.add_init_script(FAKE_STREAM)
        page.goto(f"{console}/at/default/messages?topic=orders")
        search = page.get_by_role("form", name="Search through a topic")
        search.get_by_label("Text").fill("id")
        search.get_by_role("button", name="Search").click()
        assert page.evaluate("window.stream.address").endswith("/messages/events?topic=orders&text=id")
        row = {"store_time": HOSTILE, "broker": "b", "queue": 0, "offset": 1234, "tags": None, "keys": HOSTILE}
        row |= {"body_begin": HOSTILE, "path": "messages/orders/b%3A0%3A1234"}
        following = "topic=orders&at=broker-a~0-5&scanned=1234"
        said = {"scanned": 1234, "of": 5000, "found": 1, "rows": [row], "query": following}
        page.evaluate("said => window.stream.say('progress', said)", said)
        state = page.get_by_role("status")
        expect(state).to_contain_text("searching: scanned 1,234 of 5,000, 1 found.")
        expect(page.locator("#main tbody tr")).to_have_count(1)
        expect(page.locator("#main tbody tr")).to_contain_text("<img src=x onerror=alert(1)>\\u202e")
        page.evaluate("said => window.stream.say('progress', said)", said | {"scanned": 2000, "rows": []})
        expect(page.locator("#main tbody tr")).to_have_count(1)
        assert not violations(page)
        page.get_by_role("button", name="Stop").click()
        assert page.evaluate("window.stream.isOpen") is False
        expect(state).to_contain_text("stopped: scanned 2,000 of 5,000")
        page.get_by_role("link", name="Go on").click()
        expect(page).to_have_url(re.compile(re.escape(following)))


def test_a_search_ends_at_its_page_with_an_address_and_goes_back(browser: Browser, console: str) -> None:
    with opened(browser) as (page, watch):
        page.goto(f"{console}/at/default/messages")
        search = page.get_by_role("form", name="Search through a topic")
        search.get_by_label("Topic").fill("orders")
        search.get_by_label("From").fill("-1h")
        search.get_by_role("button", name="Search").click()
        expect(page.locator(".scanned")).to_contain_text("scanned 20 of 20")
        expect(page).to_have_url(re.compile(r"topic=orders.*from=\d+"))
        page.go_back()
        expect(page.get_by_role("form", name="Search through a topic").get_by_label("Topic")).to_be_visible()
        watch.expected_statuses.add(404)
        search.get_by_label("Topic").fill("no-such-topic")
        search.get_by_role("button", name="Search").click()
        expect(page.locator("h1")).to_have_text("This is not there")


def test_without_scripts_a_search_is_a_page(browser: Browser, console: str) -> None:
    with opened(browser, scripts=False) as (page, _):
        page.goto(f"{console}/at/default/messages")
        search = page.get_by_role("form", name="Search through a topic")
        search.get_by_label("Topic").fill("orders")
        search.get_by_role("button", name="Search").click()
        expect(page.locator(".scanned")).to_contain_text("scanned 20 of 20")


def test_without_scripts_a_tail_is_the_last_messages(browser: Browser, console: str) -> None:
    with opened(browser, scripts=False) as (page, _):
        page.goto(f"{console}/at/default/topics/orders/tail")
        expect(page.locator("#main tbody tr")).to_have_count(20)
        expect(page.locator("#tail-state")).to_contain_text("These are the last messages")

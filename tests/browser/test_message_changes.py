"""Messages and dead letters that people send in a real browser, and files that they save."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from pymq.client import ConsumeResult, Message, StoredMessage
from pymq.client.sync import Admin, Producer, PushConsumer
from pymq.model.names import dlq_topic
from pymq.operations.message.records import message_from_json
from pymq.testing.standalone import StandaloneProcess
from tests.browser.chromium import PHONE, opened, overflow, violations
from tests.browser.conftest import HOSTILE

GROUP, TOPIC = "eaters", "fruit"
LETTERS = 4
WAIT_S = 30.0
BINARY = b"\xff\x00 not a text"


@pytest.fixture(scope="module")
def dead_letters(cluster: StandaloneProcess) -> Iterator[None]:
    """A group whose members gave up all messages of a topic, the last one with hostile texts."""

    def give_up(messages: list[StoredMessage]) -> ConsumeResult:
        return ConsumeResult.RECONSUME_LATER

    consumer = PushConsumer(
        GROUP, namesrv=cluster.namesrv, on_message=give_up, consume_from="first", max_reconsume_times=0
    )
    with Producer("seeding", namesrv=cluster.namesrv) as producer:
        for number in range(LETTERS - 1):
            producer.send(Message(TOPIC, f"apple {number}", tags="ripe", keys=f"apple-{number}"))
        producer.send(Message(TOPIC, HOSTILE[0], keys=HOSTILE[1].replace(" ", "_")))
    consumer.subscribe(TOPIC)
    with consumer, Admin(cluster.namesrv) as admin:
        deadline_s = time.monotonic() + WAIT_S
        while _stored(admin, dlq_topic(GROUP)) < LETTERS:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
    yield


def _stored(admin: Admin, topic: str) -> int:
    if topic not in admin.topics.names():
        return 0
    return sum(at.max_offset for at in admin.topics.stats(topic).values())


def plan_and_apply(page: Page) -> None:
    page.get_by_role("button", name="Show the plan").click()
    expect(page.locator("main")).to_contain_text("Nothing is changed yet.")
    page.get_by_role("button", name="Change it").click()
    expect(page.get_by_role("status")).to_have_text("Done.")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_a_message_is_sent_edited_and_sent_again(browser: Browser, changing: str, scripts: bool) -> None:
    body = f"\n{HOSTILE[0]}\n\ttwo lines {HOSTILE[8]}"
    with opened(browser, scripts=scripts) as (page, watch):
        watch.expected_statuses.add(404)  # a plan that was used is no more
        page.goto(f"{changing}/at/default/topics/topic-09")
        page.get_by_role("link", name="Send", exact=True).click()
        page.get_by_label("Body").fill(body)
        page.get_by_label("Tag").fill(HOSTILE[0])
        page.get_by_label("Properties").fill(f"color={HOSTILE[1]}\nsize=1")
        plan_and_apply(page)
        page.locator("dl a").click()
        expect(page.locator("pre.text")).to_contain_text(HOSTILE[0])
        page.get_by_role("link", name="Edit and send again").click()
        expect(page.get_by_label("Body")).to_have_value(body)
        expect(page.get_by_label("Properties")).to_have_value(f"color={HOSTILE[1]}\nsize=1")
        plan_and_apply(page)  # as it was
        page.go_back()
        page.go_back()
        page.get_by_label("Body").fill("another body")
        page.get_by_label("Topic").fill("topic-08")
        page.get_by_role("button", name="Show the plan").click()
        expect(page.locator("main")).to_contain_text("an id of its own")
        expect(page.get_by_role("row", name=re.compile("Begin of the body"))).to_contain_text("another body")
        page.get_by_role("button", name="Change it").click()
        expect(page.get_by_role("status")).to_have_text("Done.")
        page.goto(f"{changing}/at/default/messages?topic=topic-08")
        expect(page.locator("#main tbody tr").first).to_contain_text("another body")
        page.goto(f"{changing}/at/default/messages?topic=topic-09")
        expect(page.locator("#main tbody tr").first).to_contain_text("two lines")
        page.goto(f"{changing}/at/default/audit")
        expect(page.locator("tbody tr").first).to_contain_text("message send again")
        expect(page.locator("main")).not_to_contain_text("another body")


def test_chosen_dead_letters_are_sent_again(browser: Browser, changing: str, dead_letters: None) -> None:
    with opened(browser) as (page, _):
        page.goto(f"{changing}/at/default/dlq/{GROUP}")
        expect(page.locator("#main tbody tr")).to_have_count(LETTERS)
        page.get_by_role("row", name=re.compile("apple 1")).get_by_role("checkbox").focus()
        page.keyboard.press("Space")
        page.get_by_role("row", name=re.compile("apple 0")).get_by_role("checkbox").check()
        page.get_by_role("button", name="Send the chosen ones again").click()
        expect(page.locator("main")).to_contain_text("Chosen dead letters: 2.")
        page.locator("select[name=target]").select_option("their topics, for all groups")
        plan_and_apply(page)
        expect(page.locator("h2")).to_have_text("Sent 2 of 2")
        page.goto(f"{changing}/at/default/messages?topic={TOPIC}")
        expect(page.locator("#main tbody tr")).to_have_count(LETTERS + 2)
        page.goto(f"{changing}/at/default/dlq/{GROUP}")
        expect(page.locator("#main tbody tr")).to_have_count(LETTERS)


def test_dead_letters_go_by_conditions_without_scripts(browser: Browser, changing: str, dead_letters: None) -> None:
    with opened(browser, scripts=False) as (page, _):
        page.goto(f"{changing}/at/default/dlq/{GROUP}?origin={TOPIC}")
        page.get_by_role("link", name="Send again by conditions").click()
        expect(page.get_by_label("From topic")).to_have_value(TOPIC)
        page.get_by_label("At most").fill("3")
        plan_and_apply(page)
        expect(page.locator("h2")).to_have_text("Sent 3 of 3")
        page.get_by_role("link", name="Go on with what is left").click()
        plan_and_apply(page)
        expect(page.locator("h2")).to_have_text("Sent 1 of 1")
        expect(page.get_by_role("link", name="Go on with what is left")).to_have_count(0)


def test_what_is_found_is_saved_as_a_file(
    browser: Browser, changing: str, cluster: StandaloneProcess, dead_letters: None, tmp_path: Path
) -> None:
    with Producer("seeding", namesrv=cluster.namesrv) as producer:
        for body in (BINARY, b'{"a": 1}'):
            producer.send(Message("saved", body, tags="t", properties={"color": "red"}))
    saved: dict[str, list[Message]] = {}
    with opened(browser) as (page, _):
        for path in ("messages?topic=saved&tag=t", f"dlq/{GROUP}"):
            page.goto(f"{changing}/at/default/{path}")
            with page.expect_download() as download:
                page.get_by_role("link", name="Export as JSON lines").click()
            file = tmp_path / "file.jsonl"
            download.value.save_as(file)
            name = download.value.suggested_filename
            saved[name] = [message_from_json("copies", line) for line in file.read_bytes().splitlines()]
    assert sorted(message.body for message in saved["messages.jsonl"]) == sorted([BINARY, b'{"a": 1}'])
    assert all((one.tags, one.properties) == ("t", {"color": "red"}) for one in saved["messages.jsonl"])
    assert {message.body for message in saved["dead-letters.jsonl"]} >= {b"apple 0", HOSTILE[0].encode()}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_forms_of_messages_are_whole(browser: Browser, changing: str, dead_letters: None, dark: bool) -> None:
    with opened(browser, viewport=PHONE, dark=dark) as (page, watch):
        page.goto(f"{changing}/at/default/messages?topic=hostile")
        found = page.eval_on_selector_all("#main tbody tr a", "all => all.map(each => each.href)")
        forms = [*(f"{link}/send" for link in found), f"{found[0]}/consume"]
        paths = [f"dlq/{GROUP}", f"dlq/{GROUP}/resend", f"dlq/{GROUP}/purge", "topics/orders/send"]
        for url in [*(f"{changing}/at/default/{path}" for path in paths), *forms]:
            page.goto(url)
            assert overflow(page) <= 0 and page.locator("h1").count() == 1, url
            assert page.locator("img, svg[onload], script:not([src])").count() == 0, url
            assert not watch.problems, (url, watch.problems)
        for path in paths:
            page.goto(f"{changing}/at/default/{path}")
            assert not violations(page), path
        page.goto(f"{forms[0]}")
        assert not violations(page)
        page.get_by_role("button", name="Show the plan").click()
        expect(page.locator("main")).to_contain_text("Nothing is changed yet.")
        assert overflow(page) <= 0 and not violations(page)

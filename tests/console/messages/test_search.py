"""Search by id and key, and through a topic: rows, what was scanned, and how it goes on."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qsl

import pytest

from pymq.client import MessageQueue
from pymq.console.messages import scan as scan_module
from pymq.console.messages.scan import FOUND_MAX
from pymq.console.messages.search import messages
from pymq.console.pages.page import NotShown, Page
from pymq.console.web.parameters import BadRequest
from pymq.errors import FilterError, NotFoundError, UnreachableError
from pymq.filter.plugins import EachMessage
from pymq.filter.registry import FilterRegistry
from pymq.operations.message.search import Limits
from tests.console.messages.world import BEGUN_MS, FakeTopic, html, stored, visit
from tests.console.test_app import HOSTILE

B = MessageQueue("orders", "broker-b", 1)


def shown(there: FakeTopic, /, *, shows_bodies: bool = True, **fields: str) -> tuple[Page, str]:
    visited = visit(there, shows_bodies=shows_bodies, **fields)
    page = asyncio.run(messages(visited))
    assert isinstance(page, Page)
    return page, html(page, visited)


def offsets(page: Page) -> list[int]:
    return [row["offset"] for row in page.data["messages"]]


def many(count: int) -> FakeTopic:
    topic = FakeTopic(*(stored(at, b'{"id": %d}' % at, TAGS="even" if at % 2 == 0 else "odd") for at in range(count)))
    for at in range(count):
        topic.add(stored(at, b"b%d" % at, queue=B, time_ms=BEGUN_MS + at * 1000 + 500))
    return topic


class TestById:
    """Messages with an id or a key."""

    TOPIC = FakeTopic(
        stored(5, UNIQ_KEY="7F01", KEYS="order-17 a"),
        stored(6, UNIQ_KEY="7F02", KEYS="order-17"),
        stored(7, KEYS="b:0:1"),
    )

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("order-17", [6, 5]), ("7F01", [5]), ("broker-a:0:6", [6]), (" a ", [5]), ("none", []), ("b:0:1", [7])],
    )
    def test_the_text_is_an_id_a_place_or_a_key(self, text: str, expected: list[int]) -> None:
        page, html_text = shown(self.TOPIC, q=text, topic="orders")
        assert offsets(page) == expected
        assert ("No message has this id or key in orders" in html_text) == (not expected)
        if expected:
            assert f"/at/prod/messages/orders/broker-a%3A0%3A{expected[0]}" in html_text

    def test_without_a_topic_only_the_id_of_a_broker_can_be_found(self) -> None:
        page, text = shown(self.TOPIC, q="order-17")
        assert not page.data["messages"] and "No broker made this id" in text and "name it" in text

    def test_nothing_asked_for_is_a_form_with_a_word(self) -> None:
        page, text = shown(self.TOPIC)
        assert page.data == {"messages": []} and "found at once" in text and "No message" not in text


class TestThroughATopic:
    """Messages of a topic that match, the newest first."""

    def test_a_page_says_what_it_scanned_and_the_next_one_goes_on(self) -> None:
        topic = many(100)
        page, text = shown(topic, topic="orders")
        assert len(page.data["messages"]) == FOUND_MAX and page.data["stopped_at"] == "found"
        assert page.data["of"] == 200 and "Go on" in text and "in 2 queues" in text
        times = [row["store_timestamp_ms"] for row in page.data["messages"]]
        rounds = 1
        while page.data["position"]:
            goes_on: dict[str, Any] = {name: str(value) for name, value in page.shown["goes_on"].items()}
            page, text = shown(topic, topic="orders", **goes_on)
            times += [row["store_timestamp_ms"] for row in page.data["messages"]]
            rounds += 1
        assert times == sorted(times, reverse=True) and len(times) == 200 and rounds == 4
        assert page.data["scanned"] == 200 and "This is all." in text and "Go on" not in text

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"tag": "even"}, [8, 6, 4, 2, 0]),
            ({"property": "TAGS=odd"}, [9, 7, 5, 3, 1]),
            ({"json": "$.id >= 7"}, [9, 8, 7]),
            ({"json": "id = 3"}, [3]),
            ({"text": '": 3}'}, [3]),
            ({"text": ".*"}, []),
            ({"filter": "tag:even"}, [8, 6, 4, 2, 0]),
            ({"from": str(BEGUN_MS + 7000)}, [9, 8, 7]),
            ({"to": str(BEGUN_MS + 2000)}, [1, 0]),
            ({"from": "2023-11-14T22:13:23", "to": "2023-11-14T22:13:25Z"}, [4, 3]),
        ],
    )
    def test_filters_choose(self, fields: dict[str, Any], expected: list[int]) -> None:
        topic = FakeTopic(*(stored(at, b'{"id": %d}' % at, TAGS="even" if at % 2 == 0 else "odd") for at in range(10)))
        page, text = shown(topic, topic="orders", **fields)
        assert offsets(page) == expected
        if not expected:
            assert "No message matches." in text

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("sql", "a >"), ("json", "a..b["), ("json", "a ~ (x+)+$"), ("filter", "tag"), ("filter", "none:x"),
            ("property", "=x"), ("from", "yesterday"), ("to", "9" * 60), ("at", "x"), ("at", "b~1-x"),
            ("tag", "||"), ("scanned", "-1"), ("scanned", str(2**63)), ("text", "x" * 2049),
            ("topic", "x" * 256), ("q", "x" * 1025), ("at", "x" * 9000),
        ],
    )  # fmt: skip
    def test_a_wrong_field_is_named(self, name: str, value: str) -> None:
        with pytest.raises(BadRequest) as caught:
            fields: dict[str, Any] = {"topic": "orders"} | {name: value}
            shown(many(1), **fields)
        assert caught.value.name == name

    def test_a_page_that_scans_much_and_finds_nothing_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scan_module, "LIMITS", Limits(50, 60, 4000))
        page, text = shown(many(100), topic="orders", text="nowhere")
        assert page.data["stopped_at"] == "scanned" and not page.data["messages"]
        assert 60 <= page.data["scanned"] < 200 and "None so far" in text and "No message matches" not in text

    def test_a_broker_that_fails_is_named_and_asked_again_by_going_on(self) -> None:
        topic = many(3)
        topic.failing = {"broker-b": UnreachableError("broker-b can't be reached")}
        page, text = shown(topic, topic="orders")
        assert page.missing == {"broker-b": "broker-b can't be reached"} and offsets(page) == [2, 1, 0]
        assert "Go on" in text and "This is all" not in text
        topic.failing = {}
        page, _ = shown(topic, topic="orders", at=page.data["position"])
        assert [row["broker"] for row in page.data["messages"]] == ["broker-b"] * 3

    def test_bodies_that_no_filter_could_read_are_counted(self) -> None:
        from pymq.model import sysflag

        topic = FakeTopic(stored(0, b"\x00", sys_flag=sysflag.COMPRESSED), stored(1, b"needle"))
        page, text = shown(topic, topic="orders", text="needle")
        assert offsets(page) == [1] and page.data["unread_bodies"] == 1 and "1 bodies were not looked into" in text

    def test_what_brokers_do_not_heed_of_an_expression_is_said(self) -> None:
        page, text = shown(many(1), topic="orders", sql="a = 5 b = 6")
        assert "brokers ignore" in page.missing["sql"] and "brokers ignore" in text

    def test_messages_on_which_a_filter_failed_are_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Failing:
            name, doc = "failing", "Fails."

            def compile(self, expression: str) -> Any:
                def judge(message: Any) -> bool:
                    raise FilterError("it is broken")

                return EachMessage(judge)

        monkeypatch.setattr(FilterRegistry, "find", lambda self, name: Failing())
        page, text = shown(FakeTopic(stored(0), stored(1)), topic="orders", filter="failing:x")
        assert page.data["unfiltered"] == 2 and "The filter failed on 2 messages" in text

    def test_nothing_stored_is_not_nothing_found(self) -> None:
        page, text = shown(many(3), topic="orders", from_=str(BEGUN_MS + 10**9))
        assert not page.data["messages"] and "pymq send stores one" in text and page.data["of"] == 0

    def test_an_unknown_topic_is_not_found(self) -> None:
        with pytest.raises(NotFoundError):
            shown(many(1), topic="none")

    def test_without_bodies_rows_have_places_alone_and_nothing_searches_contents(self) -> None:
        topic = FakeTopic(stored(5, b"secret-body", TAGS="secret-tag", KEYS="secret-key"))
        page, text = shown(topic, topic="orders", shows_bodies=False)
        assert "secret" not in text and "secret" not in str(page.data) and offsets(page) == [5]
        for name in ("tag", "sql", "filter", "property", "text", "json"):
            with pytest.raises(NotShown):
                shown(topic, topic="orders", shows_bodies=False, **{name: "x"})


def test_the_position_in_a_link_is_read_back_from_it() -> None:
    page, text = shown(many(100), topic="orders", from_="-1d")
    link = text.split('rel="next" href="?')[1].split('"')[0].replace("&amp;", "&")
    fields = dict(parse_qsl(link))
    assert fields["at"] == page.data["position"] and fields["from"].isdigit(), "a span would move with each page"


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_in_rows_and_fields_stay_text(text: str) -> None:
    clean = text.encode("utf-8", "replace").decode().replace("\x00", "")[:10_000]
    there = FakeTopic(stored(5, text.encode("utf-8", "surrogatepass"), TAGS=clean, KEYS=clean, a=clean))
    given: dict[str, Any] = {"text": clean[:500], "property": clean[:500]}
    for fields in ({}, given):
        _, found = shown(there, topic="orders", **fields)
        assert "<img" not in found and "<script>" not in found and "\u202e" not in found and "\x1b" not in found
        assert len(found) < 20_000, "labels and bodies are shortened in rows"

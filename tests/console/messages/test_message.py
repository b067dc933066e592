"""The page of one message: data, text, and what is unknown, refused or left out."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pymq.client import MessageQueue
from pymq.console.messages.bodies import SHOWN_BYTES, SHOWN_BYTES_MAX
from pymq.console.messages.message import BODY_FILE, JSON_DEPTH_MAX, message, message_body
from pymq.console.pages.page import NotShown, Page
from pymq.console.web.parameters import BadRequest
from pymq.errors import NotFoundError, RefusedError
from pymq.wire.bodies_admin import ConsumeOffset
from tests.console.messages.world import FakeTopic, html, stored, visit
from tests.console.test_app import HOSTILE

QUEUE = MessageQueue("orders", "broker-a", 0)
PLACE = {"topic": "orders", "id": "broker-a:0:5"}


def shown(
    topic: FakeTopic, path: dict[str, str] | None = None, *, shows_bodies: bool = True, **fields: str
) -> tuple[Page, str]:
    visited = visit(topic, path or PLACE, shows_bodies=shows_bodies, **fields)
    page = asyncio.run(message(visited))
    assert isinstance(page, Page)
    return page, html(page, visited)


def test_a_message_is_found_at_its_place_with_all_its_fields() -> None:
    page, text = shown(FakeTopic(stored(5, b'{"id": 17}', UNIQ_KEY="7F01", TAGS="paid", KEYS="order-17", color="red")))
    assert page.title == "Message 7F01" and page.data["body"] == {"id": 17} and page.data["offset"] == 5
    assert page.data["properties"]["color"] == "red" and page.data["tags"] == "paid"
    assert page.command == ("message", "get", "7F01", "--topic", "orders")
    assert "color" in text and "order-17" in text and '<span class="v-number">17</span>' in text
    assert "/at/prod/messages/orders/broker-a%3A0%3A5/trace" in text and "/body" in text


def test_a_message_is_found_by_the_id_of_its_producer() -> None:
    page, _ = shown(
        FakeTopic(stored(5, UNIQ_KEY="7F01"), stored(6, UNIQ_KEY="7F01")), {"topic": "orders", "id": "7F01"}
    )
    assert page.data["offset"] == 6, "the newest of those that were sent with it"


@pytest.mark.parametrize("message_id", ["broker-a:0:99", "broker-b:0:5", "7F02"])
def test_a_message_that_is_not_there_is_not_found(message_id: str) -> None:
    with pytest.raises(NotFoundError):
        shown(FakeTopic(stored(5, UNIQ_KEY="7F01")), {"topic": "orders", "id": message_id})


def test_what_each_group_did_is_said_or_why_it_is_unknown() -> None:
    topic = FakeTopic(stored(5))
    topic.groups = ["ahead", "behind", "next", "new", "refused"]
    topic.lags = {
        "ahead": {QUEUE: ConsumeOffset(broker_offset=9, consumer_offset=6, pymq_invisible=0)},
        "behind": {QUEUE: ConsumeOffset(broker_offset=9, consumer_offset=2)},
        "next": {QUEUE: ConsumeOffset(broker_offset=9, consumer_offset=5)},
        "new": {QUEUE: ConsumeOffset(broker_offset=9, pymq_uncommitted=True)},
        "refused": RefusedError(16, "no permission"),
    }
    page, text = shown(topic)
    states = {record["group"]: (record["state"], record["before"]) for record in page.data["groups"]}
    assert states == {
        "ahead": ("past it", None),
        "behind": ("not yet", 3),
        "next": ("not yet", 0),
        "new": ("unknown", None),
        "refused": ("unknown", None),
    }
    assert "has committed nothing" in text and "no permission" in text


def test_groups_that_can_not_be_listed_hide_nothing_else() -> None:
    topic = FakeTopic(stored(5))
    topic.groups = RefusedError(16, "no right to list")
    page, text = shown(topic)
    assert "no right to list" in page.missing["groups"] and "hello" in text and "Groups are unknown now" in text
    assert "No group reads" not in text


def test_a_large_body_is_cut_and_more_is_a_link() -> None:
    page, text = shown(FakeTopic(stored(5, b"x" * 3_000_000)))
    assert page.data["body"] is None and "3,000,000 bytes" in page.missing["body as JSON"]
    assert f"bytes={4 * SHOWN_BYTES}" in text and len(text) < SHOWN_BYTES + 10_000
    page, text = shown(FakeTopic(stored(5, b"x" * 3_000_000)), bytes=str(SHOWN_BYTES_MAX))
    assert "show more" not in text and "first 1,048,576 of 3,000,000 bytes" in text
    page, text = shown(FakeTopic(stored(5, b"x" * SHOWN_BYTES)))
    assert page.data["body"] == "x" * SHOWN_BYTES and "show more" not in text
    with pytest.raises(BadRequest, match="bytes"):
        shown(FakeTopic(stored(5)), bytes=str(SHOWN_BYTES_MAX + 1))


@pytest.mark.parametrize(("depth", "is_there"), [(JSON_DEPTH_MAX, True), (JSON_DEPTH_MAX + 2, False), (900, False)])
def test_a_deep_body_is_no_fault(depth: int, is_there: bool) -> None:
    page, text = shown(FakeTopic(stored(5, b"[" * depth + b"]" * depth)))
    assert (page.data["body"] is not None) == is_there and ("nested deeper" in str(page.missing)) != is_there
    assert "<details" in text and json.dumps(page.data)


def test_a_dead_letter_says_where_it_came_from() -> None:
    letter = stored(5, DLQ_ORIGIN_TOPIC="orders<", DLQ_ORIGIN_MESSAGE_ID="7F09")
    _, text = shown(FakeTopic(letter))
    assert "/at/prod/messages/orders%3C/7F09" in text and "It came from" in text
    assert "It came from" not in shown(FakeTopic(stored(5)))[1]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("view", ["auto", "text", "hex", "json"])
def test_hostile_contents_stay_text(text: str, view: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    fields: dict[str, Any] = {"as": view}
    clean = text.encode("utf-8", "replace").decode().replace("\x00", "")[:10_000]
    for body in (raw, b'{"a": ' + repr(clean).encode() + b"}", b'["' + clean.replace('"', "").encode() + b'"]'):
        hostile = stored(5, body, UNIQ_KEY=clean[:60] or "a", TAGS=clean, color=clean)
        found = shown(FakeTopic(hostile), **fields)[1]
        assert "<img" not in found and "<script>" not in found and "\u202e" not in found and "\x1b" not in found


def test_without_bodies_neither_body_nor_property_is_anywhere() -> None:
    topic = FakeTopic(stored(5, b"secret-body", TAGS="secret-tag", KEYS="secret-key", color="secret-color"))
    page, text = shown(topic, shows_bodies=False)
    assert "secret" not in text and "secret" not in str(page.data) and page.data["body"] is None
    assert page.data["offset"] == 5 and "--no-bodies" in page.missing["body"]
    with pytest.raises(NotShown):
        asyncio.run(message_body(visit(topic, PLACE, shows_bodies=False)))


def test_a_body_is_downloaded_as_its_producer_wrote_it() -> None:
    from pymq.model.compression import compress_body

    body, flag = compress_body(b"<script>" * 100)
    found: Any = asyncio.run(message_body(visit(FakeTopic(stored(5, body, sys_flag=flag)), PLACE)))
    assert (found.content, found.name) == (b"<script>" * 100, BODY_FILE)

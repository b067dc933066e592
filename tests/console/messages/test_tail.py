"""A tail: the last messages without a script, and a stream of rounds that says what fails and when it ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pymq.console.messages import tail as module
from pymq.console.messages.tail import FAILURES_MAX, event, tail, tail_events
from pymq.console.pages.page import Events, NotShown, Page, Visit
from pymq.console.web.parameters import BadRequest
from pymq.errors import NotFoundError, UnreachableError
from tests.console.messages.world import FakeTopic, html, stored, visit

PATH = {"topic": "orders"}


def taken(visited: Visit, there: FakeTopic, *steps: Any) -> list[tuple[str, Any]]:
    """Return the events, each after a step."""

    async def work() -> list[tuple[str, Any]]:
        stream = await tail_events(visited)
        assert isinstance(stream, Events)
        found = []
        for step in steps:
            step()
            visited.clock.advance(1000)  # type: ignore[attr-defined]
            name, _, data = (await anext(stream.events)).decode("ascii").partition("\n")
            found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
        assert visited.cluster.is_asking, "a stream keeps its connections"
        await stream.events.aclose()  # type: ignore[attr-defined]
        assert not visited.cluster.is_asking
        return found

    return asyncio.run(work())


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROUND_S", 0)


def test_the_page_has_the_last_messages_and_where_new_ones_come_from() -> None:
    visited = visit(FakeTopic(*(stored(at) for at in range(60))), PATH, tag="")
    page = asyncio.run(tail(visited))
    assert isinstance(page, Page)
    text = html(page, visited)
    assert [row["offset"] for row in page.data["messages"]] == list(range(59, 9, -1))
    assert 'data-events="/at/prod/topics/orders/tail/events?' in text and 'data-rows="500"' in text
    assert '<script src="/static/tail.js" defer></script>' in text and "These are the last messages" in text
    assert page.command == ("tail", "orders", "-50")


def test_rounds_have_new_rows_with_the_paths_of_their_pages() -> None:
    there = FakeTopic(stored(0))
    quiet, busy = taken(visit(there, PATH), there, lambda: None, lambda: there.add(stored(1, "\u202e\n".encode())))
    assert quiet == ("round", {"rows": [], "arrived": 0, "unread": 0, "unshown": 0, "failed": {}})
    assert busy[0] == "round" and busy[1]["arrived"] == 1
    assert busy[1]["rows"][0]["path"] == "messages/orders/broker-a%3A0%3A1"
    assert busy[1]["rows"][0]["body_begin"] == "\u202e\n"


def test_a_cluster_that_does_not_answer_is_said_and_ends_the_stream_after_a_while() -> None:
    there = FakeTopic(stored(0))
    visited = visit(there, PATH)
    admin: Any = visited.cluster._admin
    whole = admin.topics.stats

    async def fail(topic: str) -> Any:
        raise UnreachableError("broker-a can't be reached")

    def break_off() -> None:
        admin.topics.stats = fail

    def mend() -> None:
        admin.topics.stats = whole
        there.add(stored(1))

    found = taken(visited, there, break_off, lambda: None, mend)
    assert [name for name, _ in found] == ["problem", "problem", "round"]
    assert found[0][1] == "broker-a can't be reached" and len(found[2][1]["rows"]) == 1

    async def until_it_ends() -> list[bytes]:
        admin.topics.stats = whole
        stream = await tail_events(visited)
        assert isinstance(stream, Events)
        break_off()
        found = []
        async for each in stream.events:
            visited.clock.advance(1000)  # type: ignore[attr-defined]
            found.append(each)
        return found

    events = asyncio.run(until_it_ends())
    assert sum(each.startswith(b"event: problem") for each in events) == FAILURES_MAX
    assert events[-1].startswith(b"event: end")


def test_wrong_filters_and_unknown_topics_are_refused_before_the_stream_begins() -> None:
    with pytest.raises(BadRequest, match="json"):
        asyncio.run(tail_events(visit(FakeTopic(stored(0)), PATH, json="a ~ x")))
    with pytest.raises(NotFoundError):
        asyncio.run(tail_events(visit(FakeTopic(stored(0)), {"topic": "none"})))


def test_without_bodies_there_is_no_tail() -> None:
    for make in (tail, tail_events):
        with pytest.raises(NotShown):
            asyncio.run(make(visit(FakeTopic(stored(0)), PATH, shows_bodies=False)))


def test_an_event_is_two_lines_whatever_its_data_are() -> None:
    assert event("round", {"a": "x\r\n\n\u2028\ud800"}).count(b"\n") == 1

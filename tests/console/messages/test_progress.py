"""A search on its way: what it says, and that its page takes its result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast
from urllib.parse import parse_qsl

import pytest

from pymq.client import MessageQueue
from pymq.console.messages import progress, search
from pymq.console.messages.filters import Filters
from pymq.console.messages.progress import Progress, search_events
from pymq.console.messages.scan import Scan, Span
from pymq.console.pages.page import NotShown, Page, Visit
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.errors import NotFoundError, PymqError, RefusedError, UnreachableError
from tests.console.messages.world import BEGUN_MS, FakeTopic, stored, visit

Event = tuple[str, Any]


class Slow(FakeTopic):
    """A topic whose pulls wait until a test lets them go on."""

    def __init__(self, count: int) -> None:
        super().__init__(*(stored(at, b"text %d" % at) for at in range(count)))
        self.free = asyncio.Event()
        self.free_pulls = 1

    async def pull_as(self, *arguments: Any, **more: Any) -> Any:
        if len(self.pulls) >= self.free_pulls:
            await self.free.wait()
        return await super().pull_as(*arguments, **more)


def parsed(raw: bytes) -> Event:
    name, _, data = raw.decode().partition("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def events_of(visited: Visit) -> list[Event]:
    return [parsed(raw) async for raw in (await search_events(visited)).events]


def again(visited: Visit, query: str) -> Visit:
    """Return a visit of the same cluster with another query."""
    return Visit(visited.cluster, Parameters(parse_qsl(query)), {}, visited.clock, visited.shows_bodies)


def rows_of(page: Any) -> list[int]:
    assert isinstance(page, Page)
    return [row["offset"] for row in page.data["messages"]]


def test_a_quick_search_leads_to_its_page_which_asks_no_more() -> None:
    async def work() -> None:
        there = FakeTopic(*(stored(at) for at in range(5)))
        visited = visit(there, topic="orders", from_="-1h", tag="")
        visited.clock.now_ms()
        ((name, data),) = await events_of(visited)
        assert name == "done"
        fields = dict(parse_qsl(data["query"], keep_blank_values=True))
        assert fields["from"].isdecimal() and fields["topic"] == "orders"
        pulls = len(there.pulls)
        page = await search.messages(again(visited, data["query"]))
        assert len(there.pulls) == pulls and isinstance(page, Page)

    asyncio.run(work())


async def until(events: AsyncIterator[bytes], what: str, count: int) -> list[Event]:
    """Return the events up to the one that says so many."""
    said: list[Event] = []
    while not said or said[-1][1].get(what) != count:
        said.append(parsed(await anext(events)))
        assert said[-1][0] == "progress"
    return said


async def leave(events: AsyncIterator[bytes]) -> None:
    """End a stream as a browser does that goes away."""
    await cast(AsyncGenerator[bytes, None], events).aclose()


def test_a_slow_search_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PERIOD_S", 0.001)

    async def work() -> None:
        there = Slow(100)
        visited = visit(there, topic="orders", text="nothing")
        events = (await search_events(visited)).events
        _, data = (await until(events, "scanned", 51))[-1]
        assert (data["of"], data["found"], data["rows"]) == (100, 0, [])
        there.free.set()
        rest = [parsed(raw) async for raw in events]
        assert rest[-1][0] == "done"
        page = await search.messages(again(visited, rest[-1][1]["query"]))
        assert isinstance(page, Page) and page.data["scanned"] == 100
        gone_on = await search.messages(again(visited, data["query"]))
        assert isinstance(gone_on, Page) and gone_on.data["scanned"] == 100

    asyncio.run(work())


def test_rows_come_once_and_a_search_that_is_stopped_goes_on_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PERIOD_S", 0.001)

    async def work() -> None:
        there = Slow(1000)
        visited = visit(there, topic="orders", text="99")
        events = (await search_events(visited)).events
        said = await until(events, "found", 10)
        rows = [row for _, data in said for row in data["rows"]]
        assert [row["offset"] for row in rows] == list(range(999, 989, -1)) and all(row["path"] for row in rows)
        await leave(events)
        assert not visited.cluster.is_asking, "a browser that leaves ends its search"
        there.free.set()
        page = await search.messages(again(visited, said[-1][1]["query"]))
        assert rows_of(page) == [899, 799, 699, 599, 499, 399, 299, 199, 99]

    asyncio.run(work())


def test_a_row_is_said_once() -> None:
    visited = visit(FakeTopic(stored(0)), topic="orders")
    told = Progress(visited, Filters.none(), Span("orders"), 0)
    rows = [{"topic": "orders", "id": str(at)} for at in range(5)]
    said = [told._said(Scan(rows[:count], count, 9, 1, None, None, "")) for count in (2, 2, 5)]
    assert [[row["id"] for row in each["rows"]] for each in said] == [["0", "1"], [], ["2", "3", "4"]]
    assert [each["found"] for each in said] == [2, 2, 5]


class Failing(FakeTopic):
    """A topic of which nothing can be read."""

    def __init__(self, error: PymqError) -> None:
        super().__init__(stored(0))
        self.error = error
        self.count = 0

    async def stats(self, topic: str) -> Any:
        self.count += 1
        if self.count > 1:
            raise self.error
        return await super().stats(topic)


def test_a_search_that_fails_says_why() -> None:
    visited = visit(Failing(UnreachableError("no broker answers <b>")), topic="orders")
    assert asyncio.run(events_of(visited)) == [("problem", "no broker answers <b>")]


def _visit_of(fields: dict[str, Any]) -> Visit:
    return visit(FakeTopic(stored(0)), **fields)


def test_what_is_refused_is_no_stream() -> None:
    class Refusing(FakeTopic):
        async def stats(self, topic: str) -> Any:
            raise RefusedError(16, "no permission")

    with pytest.raises(RefusedError):
        asyncio.run(events_of(visit(Refusing(stored(0)), topic="orders")))
    with pytest.raises(NotFoundError):
        asyncio.run(events_of(visit(FakeTopic(stored(0)), topic="none")))
    for fields, name in (
        ({"topic": "orders", "sql": "("}, "sql"),
        ({}, "topic"),
        ({"topic": "orders", "at": "x"}, "at"),
    ):
        with pytest.raises(BadRequest, match=f"^{name}: "):
            asyncio.run(events_of(_visit_of(fields)))
    with pytest.raises(NotShown):
        asyncio.run(events_of(visit(FakeTopic(stored(0)), shows_bodies=False, topic="orders", text="x")))


def test_a_search_without_an_answer_ends_in_the_time_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PAGE_TIMEOUT_S", 0.01)

    async def work() -> list[Event]:
        there = Slow(10)
        there.free_pulls = 0
        return await events_of(visit(there, topic="orders"))

    ((name, text),) = asyncio.run(work())
    assert name == "problem" and "did not answer within" in text


def test_queues_of_all_brokers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PERIOD_S", 0.001)

    async def work() -> None:
        there = Slow(40)
        there.free_pulls = 2
        for at in range(60):
            there.add(stored(at, queue=MessageQueue("orders", "broker-b", 0), time_ms=BEGUN_MS))
        events = (await search_events(visit(there, topic="orders", text="nothing"))).events
        _, data = (await until(events, "scanned", 52))[-1]
        assert data["of"] == 100
        await leave(events)

    asyncio.run(work())

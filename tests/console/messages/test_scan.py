"""One page of a search: its part of the topic, its times, and the question that single flight knows it by."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client import MessageQueue, StoredMessage
from pymq.console.messages.filters import Filters
from pymq.console.messages.rows import message_row
from pymq.console.messages.scan import Scan, Span, scan
from pymq.errors import NotFoundError
from tests.console.messages.world import BEGUN_MS, FakeTopic, stored, visit

A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 0)


def row(message: StoredMessage) -> dict[str, Any]:
    return message_row(message, shows_bodies=True)


def scanned(there: FakeTopic, *spans: Span, **more: Any) -> list[Scan]:
    visited = visit(there)

    async def work() -> list[Scan]:
        return [await scan(visited.cluster, visited.clock, each, Filters.none(), row, **more) for each in spans]

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "takes"),
    [
        *((None, None, True), (5000, None, True), (5001, None, False)),
        *((None, 5000, False), (0, 5001, True)),
    ],
)
def test_a_span_has_its_begin_and_not_its_end(begin_ms: int | None, end_ms: int | None, takes: bool) -> None:
    assert Span("orders", begin_ms, end_ms).takes(stored(0, time_ms=5000)) is takes


def test_a_queue_that_came_after_the_begin_of_a_search_is_not_searched_later() -> None:
    there = FakeTopic(*(stored(at) for at in range(3)), stored(0, queue=B))
    (found,) = scanned(there, Span("orders", at={A: 2}, scanned=1))
    assert [each["offset"] for each in found.rows] == [1, 0] and (found.scanned, found.total) == (3, 3)


def test_a_position_beyond_the_queue_is_its_end() -> None:
    (found,) = scanned(FakeTopic(stored(7), stored(8)), Span("orders", at={A: 10**18}))
    assert [each["offset"] for each in found.rows] == [8, 7]
    (found,) = scanned(FakeTopic(stored(7), stored(8)), Span("orders", at={A: 0}))
    assert not found.rows and found.position == ""


def test_the_same_page_asked_twice_costs_once_and_another_one_is_another() -> None:
    there = FakeTopic(stored(0), stored(1))
    first, again, other = scanned(there, Span("orders"), Span("orders"), Span("orders", end_ms=BEGUN_MS + 1000))
    assert first is again and [each["offset"] for each in other.rows] == [0]


def test_a_further_condition_is_part_of_the_question() -> None:
    there = FakeTopic(stored(0), stored(1))
    visited = visit(there)

    async def work() -> list[int]:
        counts = []
        for wanted in (0, 1):
            found = await scan(
                visited.cluster, visited.clock, Span("orders"), Filters.none(), row,
                lambda one, wanted=wanted: one.queue_offset == wanted, question=(str(wanted),),
            )  # fmt: skip
            counts += [each["offset"] for each in found.rows]
        return counts

    assert asyncio.run(work()) == [0, 1]


def test_an_unknown_topic_is_not_an_empty_one() -> None:
    with pytest.raises(NotFoundError):
        scanned(FakeTopic(stored(0)), Span("none"))

"""The last N that match are those of a search through everything, as long as the limit is not reached."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.cli.tail.last import Found, LastMessages, by_time
from pymq.cli.tail.options import Cursor
from pymq.client import MessageQueue


@dataclass
class Stored:
    """As much of a message as the search looks at."""

    queue_id: int
    queue_offset: int
    store_timestamp_ms: int
    physical_offset: int
    matches: bool


def search(messages: list[Stored], wanted: int, look_back_max: int) -> tuple[Found, int]:
    """Return what the search finds and how many messages it read."""
    queues: dict[int, list[Stored]] = {}
    for one in messages:
        queues.setdefault(one.queue_id, []).append(one)
    read_count = 0

    async def read(cursor: Cursor, begin: int, end: int) -> Any:
        nonlocal read_count
        read_count += end - begin
        return [one for one in queues[cursor.queue.queue_id][begin:end] if one.matches]

    async def time_at(cursor: Cursor, offset: int) -> int | None:
        return queues[cursor.queue.queue_id][offset].store_timestamp_ms

    cursors = [
        (Cursor(MessageQueue("t", "b", queue_id), 0, len(own), 0), 0) for queue_id, own in sorted(queues.items())
    ]
    return asyncio.run(LastMessages(wanted, look_back_max, read, time_at).find(cursors)), read_count


@st.composite
def topics(draw: st.DrawFn) -> list[Stored]:
    places = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 9)), max_size=300))
    messages: list[Stored] = []
    counts = [0, 0, 0]
    now_ms = 0
    for at, (queue_id, pause_ms, luck) in enumerate(places):
        now_ms += pause_ms
        messages.append(Stored(queue_id, counts[queue_id], now_ms, at, luck == 0))
        counts[queue_id] += 1
    return messages


@settings(max_examples=40, deadline=None)
@given(topics(), st.integers(0, 12))
def test_the_search_finds_what_reading_everything_finds(messages: list[Stored], wanted: int) -> None:
    found, _ = search(messages, wanted, 1_000_000)
    expected = sorted((one for one in cast(Any, messages) if one.matches), key=by_time)
    assert found.messages == (expected[-wanted:] if wanted else [])


@settings(max_examples=40, deadline=None)
@given(topics(), st.integers(1, 12), st.integers(1, 120))
def test_the_search_stays_within_its_limit_and_says_so(messages: list[Stored], wanted: int, limit: int) -> None:
    found, read_count = search(messages, wanted, limit)
    assert read_count == found.looked_at_count <= limit
    assert found.stored_count == len(messages)
    if len(found.messages) < wanted and read_count < len(messages):
        assert f"of the last {read_count} messages match" in found.note(wanted)


def test_a_queue_that_the_limit_leaves_unread_has_no_time_to_ask_for() -> None:
    found, read_count = search([Stored(0, 0, 0, 0, True), Stored(1, 0, 0, 1, True)], 1, 1)
    assert len(found.messages) == 1 and read_count == 1


def test_a_queue_with_older_messages_alone_is_not_searched_to_its_start() -> None:
    old = [Stored(0, at, at, at, False) for at in range(10_000)]
    new = [Stored(1, at, 20_000 + at, 20_000 + at, True) for at in range(100)]
    found, read_count = search([*old, *new], 10, 1_000_000)
    assert len(found.messages) == 10 and read_count < 100

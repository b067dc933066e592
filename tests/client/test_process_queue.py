"""The cache of one queue: limits, finished messages, and waiting."""

from __future__ import annotations

import asyncio
from typing import Any

from pymq.client.process_queue import ProcessQueue
from pymq.model.message import MessageQueue
from tests.client.messages import message

QUEUE = MessageQueue("T", "b", 0)


def make(count_max: int = 3, bytes_max: int = 10_000, start: int = 5) -> Any:
    return ProcessQueue(QUEUE, start, count_max=count_max, bytes_max=bytes_max)


def fill(process_queue: Any, offsets: Any) -> Any:
    messages = [message(offset=offset) for offset in offsets]
    process_queue.add(messages)
    process_queue.next_pull_offset = offsets[-1] + 1
    return messages


def test_an_empty_queue_is_done_up_to_the_next_pull() -> None:
    assert make().commit_offset() == 5


def test_the_oldest_unfinished_message_holds_the_commit_back() -> None:
    queue = make(10)
    messages = fill(queue, [5, 6, 9])
    queue.remove(messages[1:])
    assert queue.commit_offset() == 5
    queue.remove(messages[:1])
    assert queue.commit_offset() == 10
    assert queue.count == 0 and queue.size_bytes == 0


def test_first_and_last_offset_of_the_cache() -> None:
    queue = make(10)
    assert (queue.first_offset(), queue.last_offset()) == (0, 0)
    fill(queue, [5, 6, 9])
    assert (queue.first_offset(), queue.last_offset()) == (5, 9)


def test_pulling_waits_above_the_count_and_resumes_below() -> None:
    async def main() -> None:
        queue = make(count_max=3)
        messages = fill(queue, [5, 6, 7])
        waiting = asyncio.ensure_future(queue.wait_for_room())
        await asyncio.sleep(0)
        assert queue.is_full and not waiting.done()
        queue.remove(messages[:1])
        await waiting

    asyncio.run(main())


def test_bytes_count_too() -> None:
    queue = make(count_max=100, bytes_max=300)
    fill(queue, [5])
    assert not queue.is_full
    fill(queue, [6, 7])
    assert queue.is_full


def test_removing_twice_changes_nothing() -> None:
    queue = make(10)
    messages = fill(queue, [5, 6])
    queue.remove(messages[:1])
    queue.remove(messages[:1])
    assert queue.size_bytes == messages[1].size_bytes


def test_a_drop_wakes_all_waiters_except_wait_until_done() -> None:
    async def main() -> None:
        queue = make(count_max=1)
        messages = fill(queue, [5])
        room = asyncio.ensure_future(queue.wait_for_room())
        arrivals = asyncio.ensure_future(queue.wait_for_messages())
        done = asyncio.ensure_future(queue.wait_until_done())
        await asyncio.sleep(0)
        queue.drop()
        await room
        await arrivals
        assert not done.done()
        queue.remove(messages)
        await done

    asyncio.run(main())


def test_orderly_waiting_ends_on_arrival_and_on_closing() -> None:
    async def main() -> None:
        queue = make()
        waiting = asyncio.ensure_future(queue.wait_for_messages())
        await asyncio.sleep(0)
        assert not waiting.done()
        queue.waiting += fill(queue, [5])
        await waiting
        queue.waiting.clear()
        closing = asyncio.ensure_future(queue.wait_for_messages())
        await asyncio.sleep(0)
        queue.close()
        await closing

    asyncio.run(main())

"""The inbox of a node, at its limits."""

from __future__ import annotations

from typing import Any

from pymq.broker.raft.inbox import INBOX_BYTES_MAX, INBOX_COUNT_MAX, Inbox
from pymq.broker.raft.outgoing import Part
from pymq.raft.messages import TimeoutNow
from pymq.raft.state import Replica

MESSAGE = TimeoutNow(Replica("n1", "b"), Replica("n0", "a"), 1)


def part(size_bytes: int) -> Part:
    request: Any = None
    return Part(request, bytes(size_bytes))


def test_messages_beyond_the_limit_of_a_turn_are_dropped() -> None:
    inbox = Inbox()
    for _ in range(INBOX_COUNT_MAX + 1):
        inbox.add(MESSAGE)
    assert len(inbox.take()) == INBOX_COUNT_MAX
    assert inbox.take() == []


def test_bytes_beyond_the_limit_of_a_turn_are_dropped() -> None:
    inbox = Inbox()
    for size_bytes in (1, INBOX_BYTES_MAX, INBOX_BYTES_MAX - 1, 1):
        inbox.add(part(size_bytes))
    inbox.add(MESSAGE)
    assert [len(each.data) if isinstance(each, Part) else None for each in inbox.take()] == [
        1,
        INBOX_BYTES_MAX - 1,
        None,
    ]


def test_a_part_that_is_longer_than_the_limit_comes_alone() -> None:
    inbox = Inbox()
    inbox.add(part(INBOX_BYTES_MAX + 1))
    inbox.add(part(1))
    assert len(inbox.take()) == 1
    inbox.add(part(1))
    assert len(inbox.take()) == 1

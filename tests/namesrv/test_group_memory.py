"""GroupMemory: former members and named slaves, and their bounds."""

from __future__ import annotations

from pymq.clock import ManualClock
from pymq.namesrv.group_memory import (
    FORMER_MEMBER_COUNT_MAX,
    FORMER_MEMBER_MS,
    NAMED_SLAVE_COUNT_MAX,
    GroupMemory,
)


def test_a_former_member_is_remembered_for_a_while() -> None:
    clock = ManualClock()
    memory = GroupMemory(clock)
    memory.note_left("h:1", "10.0.0.1")
    clock.advance(FORMER_MEMBER_MS)
    assert memory.former_host("h:1") == "10.0.0.1"
    clock.advance(1)
    assert memory.former_host("h:1") is None
    assert memory.former_host("h:2") is None


def test_the_oldest_former_member_is_forgotten_first() -> None:
    memory = GroupMemory(ManualClock())
    for number in range(FORMER_MEMBER_COUNT_MAX + 1):
        memory.note_left(f"h:{number}", "10.0.0.1")
    assert memory.former_host("h:0") is None
    assert memory.former_host("h:1") is not None


def test_the_oldest_named_slave_is_forgotten_first() -> None:
    memory = GroupMemory(ManualClock())
    memory.note_slaves(["h:0", "h:1"])
    memory.note_slaves(["h:0"])
    memory.note_slaves(f"x:{number}" for number in range(NAMED_SLAVE_COUNT_MAX - 1))
    assert memory.is_named_slave("h:0")
    assert not memory.is_named_slave("h:1")

"""GroupMemory: former members and named slaves, and their bounds."""

from __future__ import annotations

from pymq.clock import ManualClock
from pymq.namesrv.group_memory import (
    FORMER_MEMBER_COUNT_MAX,
    FORMER_MEMBER_MS,
    ID_KEPT_MS,
    NAMED_SLAVE_COUNT_MAX,
    GroupMemory,
)


def test_a_former_member_is_remembered_for_a_while() -> None:
    clock = ManualClock()
    memory = GroupMemory(clock)
    memory.note_left("h:1", "10.0.0.1", 1)
    clock.advance(FORMER_MEMBER_MS)
    assert memory.former_host("h:1") == "10.0.0.1"
    clock.advance(1)
    assert memory.former_host("h:1") is None
    assert memory.former_host("h:2") is None


def test_the_oldest_former_member_is_forgotten_first() -> None:
    memory = GroupMemory(ManualClock())
    for number in range(FORMER_MEMBER_COUNT_MAX + 1):
        memory.note_left(f"h:{number}", "10.0.0.1", 1)
    assert memory.former_host("h:0") is None
    assert memory.former_host("h:1") is not None


def test_the_oldest_named_slave_is_forgotten_first() -> None:
    memory = GroupMemory(ManualClock())
    memory.note_slaves(["h:0", "h:1"])
    memory.note_slaves(["h:0"])
    memory.note_slaves(f"x:{number}" for number in range(NAMED_SLAVE_COUNT_MAX - 1))
    assert memory.is_named_slave("h:0")
    assert not memory.is_named_slave("h:1")


def test_the_id_of_a_named_member_is_kept_for_named_members() -> None:
    clock = ManualClock()
    memory = GroupMemory(clock)
    memory.note_slaves(["h:1", "h:2"])
    memory.note_left("h:1", "10.0.0.1", 0)
    assert memory.kept_for(0, "h:66") == "h:1"
    assert memory.kept_for(0, "h:1") == memory.kept_for(0, "h:2") == ""
    assert memory.kept_for(3, "h:66") == ""
    clock.advance(ID_KEPT_MS)
    assert memory.kept_for(0, "h:66") == "h:1"
    clock.advance(1)
    assert memory.kept_for(0, "h:66") == ""


def test_without_named_members_no_id_is_kept() -> None:
    memory = GroupMemory(ManualClock())
    memory.note_left("h:1", "10.0.0.1", 0)
    assert memory.kept_for(0, "h:66") == ""


def test_a_master_names_slaves_from_its_own_host_or_the_first_ones() -> None:
    memory = GroupMemory(ManualClock())
    assert memory.may_name("10.0.0.1:1", "10.9.9.9")
    memory.note_slaves(["10.0.0.1:1", "10.0.0.2:1"])
    assert memory.may_name("10.0.0.2:1", "10.0.0.2") and memory.may_name("10.0.0.2:1", "10.9.9.9")
    assert not memory.may_name("10.0.0.2:1", "10.0.0.66")
    assert not memory.may_name("10.0.0.66:1", "10.0.0.66")


def test_without_a_time_no_id_is_kept() -> None:
    for id_kept_ms, owner in ((1, "h:1"), (0, "")):
        clock = ManualClock()
        memory = GroupMemory(clock, lambda id_kept_ms=id_kept_ms: id_kept_ms)
        memory.note_slaves(["h:1"])
        memory.note_left("h:1", "h", 0)
        clock.advance(1)
        assert memory.kept_for(0, "h:66") == owner

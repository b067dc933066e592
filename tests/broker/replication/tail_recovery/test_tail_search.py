"""TailSearch: which members may return the tail of a log, how it is checked, and a crash on the way."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from pymq.broker.replication.history.epoch_history import EpochEntry, EpochHistory
from pymq.broker.replication.roles.group_probe import Member
from pymq.broker.replication.tail_recovery.tail_search import WAIT_MS, missing_of
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.bodies_replication import LogDigests
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.broker.replication.asking import status
from tests.broker.replication.tail_recovery.machines import FIRST, SECOND, SEGMENT, Machines
from tests.broker.world import slave_side
from tests.crash.losses import random_loss

BODIES = [b"%d" % number for number in range(10)]


def machines(slave_count: int = 1, **settings: object) -> Machines:
    """Return a master whose disk has three of ten messages."""
    found = Machines(slave_count, **settings)
    found.put(*BODIES[:3])
    found.master.parts.store.sync()
    found.put(*BODIES[3:])
    return found


def test_a_tail_that_a_slave_has_is_recovered_before_an_epoch_begins() -> None:
    group = machines()
    group.copy(FIRST)
    end = group.master.parts.store.physical_max_offset
    group.lose_power()
    assert group.master.parts.replication.tail_recovery.is_in_doubt
    recovered_tail = group.search()
    assert (recovered_tail.end, recovered_tail.sources, recovered_tail.missing) == (end, (FIRST,), {})
    assert recovered_tail.size_bytes == end - recovered_tail.start > 0
    assert group.master.parts.store.synced_offset == end
    assert group.epoch_history.newest_start == 0, "the epoch is still the one of before"
    group.master.parts.begin(recovered_tail)
    assert group.bodies == BODIES
    assert group.epoch_history.newest_start == end
    assert group.log_of(group.master) == group.log_of(group.slaves[FIRST])
    group.put(b"more")
    assert group.bodies == [*BODIES, b"more"]
    assert group.master.parts.store.problems == []


def test_the_log_is_as_any_other_at_the_next_start() -> None:
    group = machines()
    group.copy(FIRST)
    group.lose_power()
    group.begin()
    group.put(b"more")
    again = group.master.reopened(**group.settings)
    assert not again.parts.replication.tail_recovery.is_in_doubt
    assert [message.body for message in again.messages("T")] == [*BODIES, b"more"]


def test_a_master_that_lost_nothing_asks_and_goes_on() -> None:
    group = machines()
    group.copy(FIRST)
    group.recover(group.master.files.after_kill())
    recovered_tail = group.search()
    assert (recovered_tail.size_bytes, recovered_tail.sources, group.asked, group.paused_ms) == (0, (), [], 0)


def test_a_clean_stop_leaves_no_doubt() -> None:
    group = machines()
    group.master.parts.close()
    group.recover(group.master.files)
    assert not group.master.parts.replication.tail_recovery.is_in_doubt


def test_a_log_that_never_had_a_master_is_not_asked_for() -> None:
    group = Machines(0)
    group.recover(MemoryFiles())
    assert not group.master.parts.replication.tail_recovery.is_in_doubt


def test_several_segments_come_piece_by_piece() -> None:
    group = Machines()
    group.put(b"first")
    group.master.parts.store.sync()
    group.put(*(b"%d" % number * 25_000 for number in range(8)))
    group.copy(FIRST)
    assert group.master.parts.store.physical_max_offset > 3 * SEGMENT
    group.lose_power()
    group.begin()
    assert group.log_of(group.master) == group.log_of(group.slaves[FIRST])
    assert len(group.bodies) == 9


def test_a_log_that_lost_everything_is_recovered_from_its_beginning() -> None:
    group = Machines()
    group.put(*BODIES)
    group.copy(FIRST)
    group.lose_power()
    assert group.master.parts.store.physical_max_offset == 0
    group.begin()
    assert group.bodies == BODIES


def test_a_record_that_the_slave_has_in_part_is_left_out() -> None:
    group = machines()
    end = group.master.parts.store.physical_max_offset
    group.copy(FIRST, end - 10)
    group.lose_power()
    group.begin()
    assert group.bodies == BODIES[:-1]
    group.put(b"other")
    assert group.bodies == [*BODIES[:-1], b"other"]


def test_the_slave_with_the_longest_log_is_asked() -> None:
    group = machines(2)
    end = group.master.parts.store.physical_max_offset
    group.copy(FIRST, end - 10)
    group.copy(SECOND)
    group.lose_power()
    assert group.search().sources == (SECOND,)
    assert {address for address, _ in group.asked} == {SECOND}


def test_another_slave_continues_where_the_first_stops_answering() -> None:
    group = Machines(2)
    group.put(b"first")
    group.master.parts.store.sync()
    group.put(*(b"%d" % number * 25_000 for number in range(6)))
    group.copy(FIRST)
    group.copy(SECOND)
    group.slaves[FIRST].parts.replication.epoch_file.follow(EpochHistory(), 0)  # it can give nothing, until later
    group.lose_power()

    def stop_after_a_segment(address: str, request: Command, body: bytes) -> bytes | str:
        return "the connection is gone" if address == SECOND and len(group.asked) > 5 else body

    group.spoil = stop_after_a_segment
    group.on_pause = lambda: group.slaves[FIRST].parts.replication.epoch_file.follow(group.epoch_history, 0)
    recovered_tail = group.search()
    assert recovered_tail.sources == (SECOND, FIRST)
    group.master.parts.begin(recovered_tail)
    assert len(group.bodies) == 7


def test_bytes_that_do_not_fit_their_digest_are_asked_for_again() -> None:
    group = machines()
    group.copy(FIRST)
    group.lose_power()
    spoiled: list[Any] = []

    def spoil_once(address: str, request: Command, body: bytes) -> bytes:
        if request.code == RequestCode.PYMQ_READ_LOG and not spoiled:
            spoiled.append(address)
            return b"\0" + body[1:]
        return body

    group.spoil = spoil_once
    group.begin()
    assert spoiled and group.bodies == BODIES


@pytest.mark.parametrize("garbage", [b"", b"[]", b'{"digests":["\xff"]}', b'{"other":' + b"[" * 100_000], ids=range(4))
def test_unreadable_digests_count_as_none(garbage: bytes) -> None:
    group = machines()
    group.copy(FIRST)
    group.lose_power()
    group.spoil = lambda address, request, body: garbage if request.code == RequestCode.PYMQ_LIST_LOG_DIGESTS else body
    assert group.search().sources == ()


def test_a_damaged_record_of_the_source_is_not_taken(caplog: pytest.LogCaptureFixture) -> None:
    group = machines(2)
    group.copy(FIRST)
    group.copy(SECOND, group.master.parts.store.physical_max_offset - 10)
    group.lose_power()
    end = group.master.parts.store.physical_max_offset

    def damaged(address: str, request: Command, body: bytes) -> bytes:
        if address == FIRST and request.code == RequestCode.PYMQ_LIST_LOG_DIGESTS:
            reported = msgspec.json.decode(body, type=LogDigests)
            if reported.start == end:
                reported.digests = [""]
            return msgspec.json.encode(reported)
        return body

    group.spoil = damaged
    recovered_tail = group.search()
    assert (recovered_tail.sources, recovered_tail.missing, group.paused_ms) == ((SECOND,), {}, 0)
    assert f"the log of {FIRST} is longer than ours" in caplog.text and "damaged" in caplog.text


def test_other_bytes_before_our_end_are_no_continuation(caplog: pytest.LogCaptureFixture) -> None:
    group, other = machines(), machines()
    other.master.put("T", b"of another life")
    other.master.parts.replication.epoch_file.history = group.epoch_history
    other.copy(FIRST)
    group.slaves = other.slaves
    group.lose_power()
    for node in group.slaves[FIRST].files.nodes.values():
        node.data[200:208] = b"8 others"
    assert group.search().sources == ()
    assert "differ there" in caplog.text


def test_a_log_that_went_another_way_is_not_taken() -> None:
    """It has our epoch's bytes to where the next one began, and others behind."""
    group = machines()
    group.copy(FIRST)
    ours = group.epoch_history.entries
    group.lose_power()
    end = group.master.parts.store.physical_max_offset
    group.slaves[FIRST].parts.replication.epoch_file.follow(
        EpochHistory((*ours, EpochEntry(1, end, "b" * 16))), 1 << 20
    )
    assert group.search().sources == ()
    group.slaves[FIRST].parts.replication.epoch_file.follow(EpochHistory((EpochEntry(1, 0, "c" * 16),)), 1 << 20)
    assert group.search().sources == ()
    assert group.asked == []


def test_a_log_that_begins_after_our_end_cannot_continue_it(caplog: pytest.LogCaptureFixture) -> None:
    group = Machines(1)
    group.put(b"first")
    group.master.parts.store.sync()
    group.put(*(b"%d" % number * 25_000 for number in range(8)))
    slave = group.slaves[FIRST].parts
    slave_side(slave).follower.start_at(SEGMENT)
    group.copy(FIRST)
    group.lose_power()
    assert group.search().sources == ()
    assert f"its log begins at {SEGMENT}" in caplog.text


def test_a_slave_that_followed_a_newer_master_is_not_asked() -> None:
    group = machines()
    group.copy(FIRST)
    newer = EpochHistory((*group.epoch_history.entries, EpochEntry(2, 1000, "d" * 16)))
    group.slaves[FIRST].parts.replication.epoch_file.follow(newer, 1 << 20)
    group.lose_power()
    recovered_tail = group.search()
    assert (recovered_tail.newer, recovered_tail.sources, group.asked) == (FIRST, (), [])


def test_a_slave_that_comes_late_is_waited_for() -> None:
    group = machines()
    group.copy(FIRST)
    slave = group.slaves.pop(FIRST)
    group.lose_power()
    group.on_pause = lambda: group.slaves.update({FIRST: slave} if group.paused_ms >= 2000 else {})
    group.begin()
    assert 2000 <= group.paused_ms < WAIT_MS
    assert group.bodies == BODIES


def test_the_wait_ends_and_names_the_missing_slave() -> None:
    group = machines(2)
    group.copy(FIRST)
    group.copy(SECOND)
    del group.slaves[FIRST]
    group.lose_power()
    recovered_tail = group.search()
    assert (recovered_tail.missing, recovered_tail.sources) == ({1: FIRST}, (SECOND,))
    assert WAIT_MS <= group.paused_ms <= WAIT_MS + 1000


def test_without_slaves_nothing_is_waited_for() -> None:
    group = machines(0)
    group.lose_power()
    group.begin()
    assert (group.paused_ms, group.bodies) == (0, BODIES[:3])
    assert group.epoch_history.newest_start == group.master.parts.store.physical_max_offset


def test_a_slave_is_known_by_its_id_or_its_address() -> None:
    unsynced = {1: FIRST, 2: SECOND}
    moved = Member("10.0.0.9:10911", 1, answered=True, status=status("10.0.0.9:10911", 1))
    renumbered = Member(SECOND, 5, answered=True, status=status(SECOND, 5))
    assert missing_of(unsynced, [moved]) == {2: SECOND}
    assert missing_of(unsynced, [renumbered]) == {1: FIRST}
    assert missing_of(unsynced, [Member(FIRST, 1, answered=True, is_changing=True)]) == unsynced


class Killed(Exception):
    """Ends the process at this point."""


@pytest.mark.slow
def test_a_crash_at_any_point_is_made_good_by_the_next_start() -> None:
    chance = random.Random(5)
    first = Machines()
    first.put(b"first")
    first.master.parts.store.sync()
    first.put(*(b"%d" % number * 25_000 for number in range(5)))
    first.copy(FIRST)
    snapshot, kill_count = first.master.files.snapshot(), 0
    for call_number in range(10_000):
        first.recover(MemoryFiles.restored(random_loss(chance).of(snapshot), now_ms=first.clock.now_ms))
        calls = iter(range(call_number))

        def kill(call: str, path: str, calls: object = calls) -> None:
            if next(calls, None) is None:  # type: ignore[call-overload]
                raise Killed

        files = first.master.files
        files.fault = kill
        try:
            first.begin()
        except Killed:
            kill_count += 1
            files.fault = None
            first.recover(MemoryFiles.restored(random_loss(chance).of(files.snapshot()), now_ms=first.clock.now_ms))
            first.begin()
        else:
            break
        assert first.log_of(first.master) == first.log_of(first.slaves[FIRST]), call_number
        assert len(first.bodies) == 6
        assert first.epoch_history.newest_start == first.master.parts.store.physical_max_offset
    assert kill_count > 20

"""UnsyncedReplicas: noted before the first byte is sent, dropped when the disk has all bytes."""

from __future__ import annotations

import errno

import pytest

from pymq.broker.replication.master.ha_service import CONNECTIONS_MAX
from pymq.broker.replication.tail_recovery.unsynced_replicas import (
    UNSYNCED_REPLICAS_MAX,
    UnsyncedReplicas,
)
from pymq.clock import ManualClock
from pymq.errors import StoreError, StoreUnavailableError
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.bodies_replication import FOLLOWING, GONE, SlaveState

PATH = "/data/config/unsyncedReplicas.json"
FIRST, SECOND, MOVED = "10.0.0.2:10911", "10.0.0.3:10911", "10.0.0.9:10911"
JOINING_MS = 20_000


class Directory:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.files = MemoryFiles()
        self.files.makedirs("/data/config")

    def unsynced(self) -> UnsyncedReplicas:
        found = UnsyncedReplicas(JsonTable(self.files, PATH), self.clock, lambda: JOINING_MS)
        found.load()
        return found


def gone(broker_id: int, sent_offset: int) -> SlaveState:
    return SlaveState(address=FIRST, broker_id=broker_id, ack_offset=5, sent_offset=sent_offset, state=GONE)


def full_disk(call: str, path: str) -> None:
    if call == "pwrite":
        raise OSError(errno.ENOSPC, "No space left on device", path)


def test_a_noted_replica_is_on_the_disk() -> None:
    directory = Directory()
    unsynced = directory.unsynced()
    unsynced.note(1, FIRST)
    unsynced.note(2, SECOND)
    unsynced.note(1, MOVED)
    assert directory.unsynced().slaves == {1: MOVED, 2: SECOND}


def test_no_more_are_noted_than_can_be_connected() -> None:
    """A peer that joins under many ids takes one place."""
    unsynced = Directory().unsynced()
    for number in range(1, 3 * UNSYNCED_REPLICAS_MAX):
        unsynced.note(number, FIRST)
    assert unsynced.slaves == {3 * UNSYNCED_REPLICAS_MAX - 1: FIRST}
    for number in range(1, UNSYNCED_REPLICAS_MAX + 1):
        unsynced.note(number, FIRST if number == 1 else f"10.2.0.{number}:1")
    with pytest.raises(StoreUnavailableError, match=f"{UNSYNCED_REPLICAS_MAX} slaves"):
        unsynced.note(UNSYNCED_REPLICAS_MAX + 1, FIRST)
    unsynced.note(UNSYNCED_REPLICAS_MAX, MOVED)
    assert (
        len(unsynced.slaves) == UNSYNCED_REPLICAS_MAX == CONNECTIONS_MAX
        and unsynced.slaves[UNSYNCED_REPLICAS_MAX] == MOVED
    )


def test_a_slave_that_cannot_be_noted_is_not_served() -> None:
    directory = Directory()
    unsynced = directory.unsynced()
    directory.files.fault = full_disk
    with pytest.raises(StoreUnavailableError, match="unsyncedReplicas"):
        unsynced.note(1, FIRST)
    assert unsynced.slaves == {}
    directory.files.fault = None
    unsynced.note(1, FIRST)
    directory.files.fault = full_disk
    unsynced.note(1, FIRST)  # stands there already


@pytest.mark.parametrize(("sent_offset", "stays"), [(100, False), (101, True)])
def test_an_absent_replica_is_dropped_once_its_bytes_are_synced(sent_offset: int, *, stays: bool) -> None:
    directory = Directory()
    unsynced = directory.unsynced()
    unsynced.note(1, FIRST)
    directory.clock.advance(JOINING_MS)
    unsynced.forget_needless([gone(1, sent_offset)], 100)
    assert directory.unsynced().slaves == ({1: FIRST} if stays else {})


def test_a_connected_replica_stays_noted() -> None:
    directory = Directory()
    unsynced = directory.unsynced()
    unsynced.note(1, FIRST)
    directory.clock.advance(JOINING_MS)
    here = SlaveState(address=FIRST, broker_id=1, ack_offset=5, state=FOLLOWING)
    unsynced.forget_needless([gone(1, 5), here], 100)
    assert unsynced.slaves == {1: FIRST}


def test_a_noted_replica_has_time_to_connect() -> None:
    directory = Directory()
    unsynced = directory.unsynced()
    unsynced.note(1, FIRST)
    directory.clock.advance(JOINING_MS - 1)
    unsynced.forget_needless([gone(1, 5)], 100)
    assert unsynced.slaves == {1: FIRST}
    directory.clock.advance(1)
    unsynced.forget_needless([gone(1, 5)], 100)
    assert unsynced.slaves == {}


def test_a_replica_noted_before_a_restart_is_dropped_if_it_stays_away() -> None:
    directory = Directory()
    directory.unsynced().note(1, FIRST)
    unsynced = directory.unsynced()
    unsynced.forget_needless([], 0)
    assert directory.unsynced().slaves == {}


def test_a_failed_drop_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    directory = Directory()
    directory.unsynced().note(1, FIRST)
    unsynced = directory.unsynced()
    directory.files.fault = full_disk
    unsynced.forget_needless([], 0)
    assert unsynced.slaves == {1: FIRST} and "can't be saved" in caplog.text
    directory.files.fault = None
    unsynced.forget_needless([], 0)
    assert directory.unsynced().slaves == {}


def test_an_unusable_file_is_an_error() -> None:
    directory = Directory()
    JsonTable(directory.files, PATH).save({"slaves": {"one": FIRST}})
    with pytest.raises(StoreError, match="unsyncedReplicas"):
        directory.unsynced()

"""A log that follows another: equal files, queues and keys, wherever the pieces are divided."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.clock import ManualClock
from pymq.errors import NotFoundError, StoreError, StoreUnavailableError
from pymq.model.draft import Draft
from pymq.model.layout import UNIT_SIZE_BYTES
from pymq.model.names import SCHEDULE_TOPIC
from pymq.store.disk.checkpoint import CheckpointFile
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.log.commit_log import CommitLog
from pymq.store.replica import follower as following
from pymq.store.replica.follower import Follower
from pymq.store.store import MessageStore, QueueView
from tests.golden_stores import unpack
from tests.store.support import (
    BORN,
    ROOT,
    SMALL,
    bodies,
    die,
    drop_oldest,
    everything,
    found_by_key,
    make_store,
    put,
    read_all,
)
from tests.store.test_golden_stores import SETTINGS, check_all, check_keys, open_store

SEGMENT_BYTES = SMALL["segment_size_bytes"]
TOPICS = ["T", "Other", SCHEDULE_TOPIC, "%RETRY%" + "g" * 150]  # the last one makes version 2 records
PROPERTIES = (b"", b"TAGS\x01A\x02", b"KEYS\x01a b\x02UNIQ_KEY\x01u\x02", b"DELAY\x012\x02", b"X\x01y\x02")
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(TOPICS),
        st.integers(0, 2),
        st.binary(max_size=700),
        st.sampled_from(PROPERTIES),
        st.sampled_from([0, 0, 0, 0x4, 0xC]),  # transaction states
        st.sampled_from([BORN, BORN, bytes(20)]),
    ),
    max_size=80,
)


def opened(files: MemoryFiles | None = None, clock: ManualClock | None = None, **settings: Any) -> MessageStore:
    store = make_store(files or MemoryFiles(), clock, **settings)
    store.open()
    return store


def master_with(count: int, **settings: Any) -> MessageStore:
    master = opened(**settings)
    for number, body in enumerate(bodies(count)):
        put(master, "T", number % 3, body, tags="TagA", keys=f"k{number}")
    return master


def grow(follower: Follower, master: MessageStore, size: int, end: int | None = None) -> None:
    """Append the master's log (up to ``end``) in pieces of at most ``size`` bytes."""
    end = master.physical_max_offset if end is None else end
    while follower.end < end:
        follower.append(follower.end, master.read_log(follower.end, min(size, end - follower.end)))
        follower.dispatch()


def raw(log: CommitLog) -> bytes:
    """Return all bytes of all segments, also those behind the log's end."""
    return b"".join(segment.file.pread(0, segment.end - segment.start) for segment in log.segments)


def derived(files: MemoryFiles) -> dict[str, bytes]:
    """Return the files that a stopped store derived from its log."""
    parts = tuple(f"{ROOT}/{name}/" for name in ("consumequeue", "index", "digests"))
    return {path: bytes(node.data) for path, node in files.nodes.items() if path.startswith(parts)}


class Heard:
    """Notes the calls of a store's arrival listeners: every unit of each queue, in order."""

    def __init__(self, store: MessageStore) -> None:
        self.units: dict[tuple[str, int], bytes] = {}
        store.add_arrival_listener(self._on_arrival)

    def _on_arrival(self, queue: QueueView, units: bytes) -> None:
        place = queue.topic, queue.queue_id
        before = self.units.get(place, b"")
        assert (len(before) + len(units)) // UNIT_SIZE_BYTES == queue.max_offset
        self.units[place] = before + units


# -- equal to the master --------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(deadline=None)
@given(MESSAGES, st.lists(st.integers(1, 9000), min_size=1, max_size=12), st.data())
def test_any_messages_in_any_pieces(messages: list, sizes: list[int], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "BULK_BYTES_MIN", data.draw(st.sampled_from([0, 400, 1 << 20])))
        files, clock = [MemoryFiles(), MemoryFiles()], ManualClock()
        master, slave = (opened(each, clock, index_batch_count=7) for each in files)
        heard_there, heard_here = Heard(master), Heard(slave)
        for topic, queue_id, body, properties, sys_flag, host in messages:
            master.stage(
                topic,
                queue_id,
                Draft(body, properties, 5, host, tags_code_of(master, topic, properties), sys_flag=sys_flag),
            )
            master.commit()
        follower = slave.follow()
        number = 0
        while follower.end < master.physical_max_offset:
            size = sizes[number % len(sizes)]
            follower.append(follower.end, master.read_log(follower.end, size))
            if data.draw(st.booleans()):
                follower.dispatch(data.draw(st.sampled_from([None, 1, 300, 5000])))
            number += 1
        follower.dispatch()
        assert follower.dispatched_end == follower.end == master.physical_max_offset
        assert not slave.problems
        assert heard_here.units == heard_there.units
        assert raw(slave._log) == raw(master._log)
        assert slave._log.last_store_ms == master._log.last_store_ms
        master.close()
        slave.close()
        assert derived(files[1]) == derived(files[0])


def tags_code_of(store: MessageStore, topic: str, properties: bytes) -> int:
    if topic == SCHEDULE_TOPIC and b"DELAY" in properties:
        return store.settings.schedule_deliver_ms(2, store._clock.now_ms())
    return ord("A") if b"TAGS" in properties else 0


@pytest.mark.parametrize("name", ["store-clean", "store-killed"])
@pytest.mark.parametrize("size", [77, 32768])
def test_a_log_of_rocketmq_gives_the_same_queues_and_keys(name: str, size: int, tmp_path: Path) -> None:
    root, manifest = unpack(name, tmp_path)
    master = open_store(root)
    slave = make_store(MemoryFiles(), ManualClock(1_800_000_000_000), root="/copy", **vars_of(SETTINGS))
    slave.open()
    grow(slave.follow(), master, size)
    assert not slave.problems
    assert raw(slave._log) == raw(master._log)
    check_all(slave, manifest)
    check_keys(slave, manifest)
    master.close()
    slave.close()
    again = make_store(slave._files, ManualClock(1_800_000_000_000), root="/copy", **vars_of(SETTINGS))
    assert again.open().clean
    check_all(again, manifest)


def vars_of(settings: Any) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in SMALL if name != "queue_tail_bytes"}


def test_only_whole_records_are_visible() -> None:
    master, slave = master_with(3), opened()
    follower = slave.follow()
    second = master._log.max_offset // 3
    grow(follower, master, 1, end=second - 1)
    assert (follower.end, follower.dispatched_end) == (second - 1, 0)
    assert everything(slave) == {}
    assert follower.dispatch() == 0
    follower.append(second - 1, master.read_log(second - 1, 1))
    assert follower.dispatch() == 1
    assert (follower.end, follower.dispatched_end) == (second, second)
    assert everything(slave) == {("T", 0): [b"body-0"]}
    assert found_by_key(slave, "T", "k0") == [b"body-0"]


def test_a_limited_dispatch_leaves_the_rest_for_later() -> None:
    master, slave = master_with(20), opened()
    follower = slave.follow()
    size = master.read_log(0, 4)
    record = int.from_bytes(size, "big")
    follower.append(0, master.read_log(0, 1 << 20))
    assert follower.dispatch(1) == 1  # the first record is dispatched although it is larger
    assert follower.dispatch(2 * record) == 2
    assert follower.dispatch(3 * record - 1) == 2
    assert follower.dispatched_end == 5 * record
    assert follower.dispatch() == 15


def test_numpy_is_used_only_when_already_loaded() -> None:
    code = (
        "import sys\n"
        "from tests.store.replica.test_follower import *\n"
        "master, slave = opened(), opened()\n"
        "for store in (master, slave):\n"
        "    store.set_bulk_ready(False)\n"
        "for body in bodies(300):\n"
        "    put(master, 'T', 0, body, keys='k')\n"
        "grow(slave.follow(), master, 1 << 20)\n"
        "assert slave.max_offset('T', 0) == 300\n"
        "assert 'pymq.store.scan.bulk' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- where it begins ------------------------------------------------------------------------------------------------


def test_an_empty_log_begins_at_any_segment() -> None:
    master, slave = master_with(200), opened()
    start = master._log.segments[-2].start
    follower = slave.follow()
    follower.start_at(SEGMENT_BYTES)  # nothing has come yet, so it may begin elsewhere
    follower.start_at(start)
    assert follower.end == follower.dispatched_end == start
    grow(follower, master, 501)
    assert slave.physical_min_offset == start
    assert not slave.problems
    for queue_id in range(3):
        first = slave.min_offset("T", queue_id)
        assert 0 < first < slave.max_offset("T", queue_id) == master.max_offset("T", queue_id)
        wanted = [message.body for message in read_all(master, "T", queue_id)]
        assert [message.body for message in read_all(slave, "T", queue_id)] == wanted[first:]
    files = slave._files
    die(slave)
    assert isinstance(files, MemoryFiles)
    again = opened(files)
    assert again.physical_min_offset == start
    assert everything(again) == everything(slave_of(master, start))


def slave_of(master: MessageStore, start: int) -> MessageStore:
    slave = opened()
    follower = slave.follow()
    follower.start_at(start)
    grow(follower, master, 1 << 20)
    return slave


@pytest.mark.parametrize("offset", [1, SEGMENT_BYTES - 1, SEGMENT_BYTES + 20, -SEGMENT_BYTES])
def test_a_log_begins_only_at_a_segment(offset: int) -> None:
    with pytest.raises(StoreError, match=str(offset)):
        opened().follow().start_at(offset)


def test_a_log_with_bytes_keeps_its_start() -> None:
    follower = opened().follow()
    follower.append(0, b"x")
    with pytest.raises(StoreError, match="from 0 to 1"):
        follower.start_at(SEGMENT_BYTES)


def test_a_segment_that_was_created_but_not_written_blocks_nothing() -> None:
    """The power failed between the two steps."""
    files = MemoryFiles()
    store = opened(files)
    follower = store.follow()
    follower.start_at(3 * SEGMENT_BYTES)
    follower.append(3 * SEGMENT_BYTES, b"x")
    die(store)
    slave = opened(files)
    again = slave.follow()
    assert slave.physical_min_offset == again.end == 3 * SEGMENT_BYTES
    again.start_at(5 * SEGMENT_BYTES)
    assert slave.physical_min_offset == again.end == 5 * SEGMENT_BYTES
    assert not files.listdir(f"{ROOT}/commitlog")


# -- stops and starts -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("step", [1, 50, 333])
def test_a_restart_anywhere_asks_again_for_an_incomplete_record(clean: bool, step: int) -> None:
    files, master = MemoryFiles(), master_with(40)
    ends = range(0, master.physical_max_offset + step, step * 7)
    end = 0
    for wanted in ends:
        slave = opened(files)
        follower = slave.follow()
        assert end - 400 < follower.end <= max(end, follower.end)
        grow(follower, master, step, end=min(wanted, master.physical_max_offset))
        end = follower.end
        slave.tick()
        if clean:
            slave.close()
        else:
            die(slave)
    slave = opened(files)
    grow(slave.follow(), master, 1000)
    assert everything(slave) == everything(master)
    assert raw(slave._log) == raw(master._log)
    assert found_by_key(slave, "T", "k39") == [b"body-39"]


def test_a_clean_stop_within_a_record_covers_whole_records_only() -> None:
    files, master = MemoryFiles(), master_with(10)
    slave = opened(files)
    follower = slave.follow()
    grow(follower, master, 1 << 20, end=master.physical_max_offset - 5)
    whole = follower.dispatched_end
    assert slave.sync() == slave.synced_offset == master.physical_max_offset - 5  # what it reports
    slave.close()
    durable = CheckpointFile(files, f"{ROOT}/checkpoint").load().durable
    assert durable is not None
    assert durable.log_offset == durable.queue_offset == whole
    slave = opened(files)
    assert slave.physical_max_offset == whole


def test_a_sync_during_appends_never_covers_an_incomplete_record() -> None:
    """Bytes and records arrive while the disk syncs."""
    files, master = MemoryFiles(), master_with(10)
    slave = opened(files)
    follower = slave.follow()
    end = master.physical_max_offset
    grow(follower, master, 1 << 20, end=end - 5)

    def meanwhile(call: str, path: str) -> None:
        if call == "sync" and "commitlog" in path:
            files.fault = None
            grow(follower, master, 1 << 20)

    files.fault = meanwhile
    assert slave._log.sync() == end - 5
    assert slave._log.synced_whole_offset < end - 5
    assert follower.dispatched_end == end


def test_a_checkpoint_never_vouches_for_bytes_that_were_not_dispatched() -> None:
    """Queues are written and the checkpoint moves between a record's arrival and its dispatch."""
    files, master, clock = MemoryFiles(), master_with(9), ManualClock()
    slave = opened(files, clock)
    follower = slave.follow()
    grow(follower, master, 1 << 20)
    known = follower.dispatched_end
    put(master, "T", 0, b"new", tags="TagA", keys="new")
    follower.append(follower.end, master.read_log(follower.end, 1 << 20))
    assert slave._log.visible_end[0] == known < follower.end
    clock.advance(slave.settings.checkpoint_interval_ms)
    slave.tick()
    slave.sync()
    durable = CheckpointFile(files, f"{ROOT}/checkpoint").load().durable
    assert durable is not None
    assert durable.queue_offset == known
    follower.dispatch()
    die(slave)
    slave = opened(files)
    assert everything(slave) == everything(master)
    assert found_by_key(slave, "T", "new") == [b"new"]


def test_a_slave_becomes_the_master_behind_its_last_whole_record() -> None:
    files, master = MemoryFiles(), master_with(10)
    slave = opened(files)
    grow(slave.follow(), master, 64, end=master.physical_max_offset - 5)
    slave.close()
    slave = opened(files)
    placed = put(slave, "T", 0, b"mine")
    assert placed.queue_offset == 3  # the tenth message, whose end never arrived, was the fourth of this queue
    assert [message.body for message in read_all(slave, "T", 0)] == [b"body-0", b"body-3", b"body-6", b"mine"]


def test_retention_and_compression_work_on_a_slave() -> None:
    clock = ManualClock()
    files = MemoryFiles(now_ms=clock.now_ms)
    master, slave = master_with(150), opened(files, clock)
    follower = slave.follow()
    grow(follower, master, 700, end=master.physical_max_offset - 3)
    slave.tick()
    clock.advance(3_600_000)
    slave.checkpoint()
    while (piece := slave._cold_compressor.next_piece(clock.now_ms())) is not None:
        piece.run()
        slave._cold_compressor.finish(piece)
    assert slave.figures.cold_segment_count == len(slave._log.segments) - 1 > 3
    first = slave._log.segments[1].start
    assert drop_oldest(slave) == first == slave.physical_min_offset
    grow(follower, master, 700)
    for queue_id in range(3):
        wanted = [message.body for message in read_all(master, "T", queue_id)][slave.min_offset("T", queue_id) :]
        assert [message.body for message in read_all(slave, "T", queue_id)] == wanted
    slave.close()
    assert everything(opened(files, clock)) == everything(slave_of(master, first))


def test_the_oldest_segment_stays_while_its_records_wait() -> None:
    master, slave = master_with(100), opened()
    follower = slave.follow()
    while follower.end < master.physical_max_offset:
        follower.append(follower.end, master.read_log(follower.end, 1 << 20))
    with pytest.raises(StoreUnavailableError, match="before the queue units"):
        drop_oldest(slave)
    follower.dispatch()
    slave.tick()
    assert drop_oldest(slave) == SEGMENT_BYTES


# -- refusals and failing disks -------------------------------------------------------------------------------------


def test_bytes_must_begin_where_the_log_ends() -> None:
    follower = opened().follow()
    follower.append(0, b"abc")
    for position in (0, 2, 4):
        with pytest.raises(StoreError, match=f"ends at 3, bytes from {position} on"):
            follower.append(position, b"x")
    assert follower.end == 3


def test_a_store_that_is_not_open_takes_nothing() -> None:
    follower = make_store(MemoryFiles()).follow()
    with pytest.raises(StoreUnavailableError):
        follower.append(0, b"x")
    with pytest.raises(StoreUnavailableError):
        follower.start_at(0)


def test_a_full_disk_keeps_nothing_of_a_piece_and_takes_it_later() -> None:
    files, master = MemoryFiles(), master_with(60)
    slave = opened(files)
    follower = slave.follow()
    grow(follower, master, 1 << 20, end=1000)

    def full(call: str, path: str) -> None:
        if call == "pwrite" and path.endswith(f"{SEGMENT_BYTES:020d}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    files.fault = full
    piece = bytes(master.read_log(1000, 1 << 20)) + bytes(master.read_log(SEGMENT_BYTES, 500))
    with pytest.raises(StoreUnavailableError, match="No space left"):
        follower.append(1000, piece)
    assert follower.end == 1000
    assert any("No space left" in problem for problem in slave.problems)
    assert not any(raw(slave._log)[1000:])
    files.fault = None
    follower.append(1000, piece)
    assert not slave.problems
    grow(follower, master, 1 << 20)
    assert raw(slave._log) == raw(master._log)
    assert everything(slave) == everything(master)


def test_a_failed_fsync_ends_the_following() -> None:
    files = MemoryFiles()
    slave = opened(files)
    follower = slave.follow()
    follower.append(0, b"x")

    def broken(call: str, path: str) -> None:
        if call == "sync":
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = broken
    with pytest.raises(StoreUnavailableError):
        slave.sync()
    with pytest.raises(StoreUnavailableError, match="read-only"):
        follower.append(1, b"x")


def test_records_wait_for_a_disk_that_can_not_be_read() -> None:
    files, master = MemoryFiles(), master_with(100)
    slave = opened(files)
    follower = slave.follow()
    heard = Heard(slave)
    while follower.end < master.physical_max_offset:
        follower.append(follower.end, master.read_log(follower.end, 1 << 20))

    def broken(call: str, path: str) -> None:
        if call == "pread" and path.endswith(f"{SEGMENT_BYTES:020d}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = broken
    first = follower.dispatch()
    assert 0 < first < 100
    assert any("can't be dispatched" in problem for problem in slave.problems)
    files.fault = None
    assert first + follower.dispatch() == 100
    assert not slave.problems
    assert {queue: len(units) // UNIT_SIZE_BYTES for queue, units in heard.units.items()} == {
        ("T", 0): 34, ("T", 1): 33, ("T", 2): 33,
    }  # fmt: skip


# -- reading it -----------------------------------------------------------------------------------------------------


def test_bytes_of_the_log_end_with_their_segment_and_the_log() -> None:
    master = master_with(60)
    end = master.physical_max_offset
    assert len(master.read_log(0, 1 << 20)) == SEGMENT_BYTES
    assert len(master.read_log(10, 20)) == 20
    assert len(master.read_log(SEGMENT_BYTES - 1, 20)) == 1
    assert len(master.read_log(end - 1, 20)) == 1
    assert len(master.read_log(end, 20)) == 0
    for outside in (-1, end + 1):
        with pytest.raises(NotFoundError):
            master.read_log(outside, 1)
    assert len(opened().read_log(0, 1)) == 0


def test_a_digest_of_the_logs_end_spans_segments() -> None:
    one, other = master_with(200), master_with(201)
    end = one.physical_max_offset
    assert one.tail_digest(end, 6000) == other.tail_digest(end, 6000) != other.tail_digest(end, 5999)
    assert one.tail_digest(end, 0) == other.tail_digest(0, 0)
    for wrong_end, size in ((end, end + 1), (end + 1, 10)):
        with pytest.raises(NotFoundError):
            one.tail_digest(wrong_end, size)

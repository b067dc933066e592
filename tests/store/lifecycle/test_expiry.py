"""Expiry deletes segments, then queues and index. A crash at any call leaves no hole; offsets never go back."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable

import pytest

from pymq.clock import CLOCK_JUMP_MAX_MS, ManualClock
from pymq.errors import StoreUnavailableError
from pymq.model.record import decode_records
from pymq.store.disk.disk_snapshot import DiskSnapshot
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.lifecycle.expiry import FILES_PER_SWEEP, QUEUES_PER_SWEEP
from pymq.store.read.reading import GetStatus
from pymq.store.store import MessageStore
from tests.store.support import ROOT, SMALL, die, drop_oldest, everything, found_by_key, make_store, put, read_all

SEGMENT = SMALL["segment_size_bytes"]
UNITS_PER_FILE = SMALL["queue_file_size_bytes"] // 20
COUNT = 170  # messages in A/0
CHANGING = ("remove", "sync_dir", "sync", "pwrite", "pwritev", "open", "truncate", "makedirs", "replace")


def fill(store: MessageStore, count: int = COUNT, start: int = 0) -> None:
    """Store messages: queue A/0 in every segment, B/0 in the first one only; A's messages have keys k0, k1, …"""
    for number in range(start, start + count):
        put(store, "A", 0, b"a-%d" % number, keys=f"k{number}")
        if number < 5:
            put(store, "B", 0, b"b-%d" % number)


def written(files: MemoryFiles, clock: ManualClock | None = None) -> MessageStore:
    """Return a store of several segments, queue files and index files, all of it on the disk."""
    store = make_store(files, clock)
    store.open()
    fill(store)
    store.tick()
    store.insert_waiting_keys()
    store._housekeeping.write()
    store.checkpoint()
    assert len(store._log.segments) >= 5 and len(store._index.files) >= 4
    return store


def paths(files: MemoryFiles, part: str) -> list[str]:
    return sorted(path for path in files.nodes if f"{ROOT}/{part}/" in path)


def test_segments_queues_and_index_are_deleted_together() -> None:
    files = MemoryFiles()
    store = written(files)
    before = {m.queue_offset: m.body for m in read_all(store, "A", 0)}
    keys_before = len(store._index.files)
    for dropped in (1, 2, 3):
        assert drop_oldest(store) == dropped * SEGMENT
    assert paths(files, "commitlog")[0].endswith(f"/{3 * SEGMENT:020d}")
    low = store.min_offset("A", 0)
    assert store.record_at(store._queues.get("A", 0).unit(low)[0])
    assert {m.queue_offset: m.body for m in read_all(store, "A", 0)} == {
        offset: body for offset, body in before.items() if offset >= low
    }
    # Every remaining file is still needed except one: it stays until its successor too begins below the minimum.
    starts = [int(path[-20:]) // 20 for path in paths(files, "consumequeue/A/0")]
    assert low - 2 * UNITS_PER_FILE <= starts[0] <= low - UNITS_PER_FILE < starts[1] <= low
    assert (store.min_offset("B", 0), store.max_offset("B", 0)) == (5, 5)
    assert len(store._index.files) < keys_before
    assert store._index.files[0].end_offset >= 3 * SEGMENT
    assert len(paths(files, "index")) == len(store._index.files)
    assert found_by_key(store, "A", f"k{low}") == [b"a-%d" % low]
    assert found_by_key(store, "A", "k0") == []


def test_the_segment_that_ends_the_log_is_never_deleted() -> None:
    store = written(MemoryFiles())
    while len(store._log.segments) > 1:
        drop_oldest(store)
    minimum = store._log.min_offset
    assert drop_oldest(store) == minimum == store._log.segments[0].start < store._log.max_offset


def test_a_segment_of_a_wrong_clock_is_no_younger_than_those_behind_it() -> None:
    files, clock = MemoryFiles(), ManualClock()
    store = written(files, clock)
    times_ms = [clock.now_ms() + CLOCK_JUMP_MAX_MS + 1, 200, 100, 300]
    for number, path in enumerate(paths(files, "commitlog")):
        files.nodes[path].modified_ms = times_ms[min(number, 3)]
    assert [segment.modified_ms for segment in store._expiry.segments(4)] == [100, 100, 100, 300]
    files.nodes[paths(files, "commitlog")[0]].modified_ms -= 1
    assert [segment.modified_ms for segment in store._expiry.segments(4)] == [times_ms[0] - 1, *times_ms[1:]]


def test_a_segment_that_could_not_be_created_does_not_end_the_log() -> None:
    """Its file may stay until the next write."""
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    while store._log.segment_end - store._log.max_offset > 200 or not store._log.segments:
        put(store, "A", 0, b"x")
    store.checkpoint()

    def fault(call: str, path: str) -> None:
        if call in ("sync_dir", "remove") and "commitlog" in path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = fault
    with pytest.raises(StoreUnavailableError):
        put(store, "A", 0, b"y" * 300)
    files.fault = None
    assert len(paths(files, "commitlog")) == 2 and not store._log.can_drop_oldest
    assert store._expiry.segments(10) == [(0, store._log.max_offset, 0)]
    assert drop_oldest(store) == 0
    assert len(read_all(store, "A", 0)) == store.max_offset("A", 0)


def test_a_running_pull_stays_valid_and_the_next_one_learns_of_the_deletion() -> None:
    store = written(MemoryFiles())
    result = store.get("A", 0, 0, 3, 1 << 20)
    store._expiry.work(0)
    assert [m.body for m in decode_records(b"".join(store.get("A", 0, 0, 1, 1 << 20).chunks))] == [b"a-0"]
    assert store._expiry.forget_oldest(0)
    store._expiry.work(None)
    assert [m.body for m in decode_records(b"".join(result.chunks))] == [b"a-0", b"a-1", b"a-2"]
    after = store.get("A", 0, 0, 3, 1 << 20)
    assert after.status is GetStatus.OFFSET_TOO_SMALL and after.next_offset == store.min_offset("A", 0) > 0


def test_a_queue_that_waits_for_its_sweep_says_that_messages_are_being_removed() -> None:
    store = written(MemoryFiles())
    store._log.drop_oldest()
    assert store.min_offset("A", 0) == 0
    result = store.get("A", 0, 0, 1, 1 << 20)
    assert result.status is GetStatus.MESSAGE_WAS_REMOVING and result.next_offset == 1
    assert store.offset_by_time("A", 0, 0) > 0
    store._expiry.sweep()
    assert store.min_offset("A", 0) == store.get("A", 0, 0, 1, 1 << 20).next_offset > 1


def test_many_queues_are_swept_in_slices() -> None:
    store = make_store(MemoryFiles(), segment_size_bytes=65_536)
    store.open()
    for queue_id in range(QUEUES_PER_SWEEP + 1):
        put(store, "Q", queue_id, b"x" * 100)
    fill(store, 700)
    store._housekeeping.write()
    store._expiry.work(0)
    assert store._expiry.forget_oldest(0)

    def swept() -> int:
        return sum(queue.min_offset > 0 for queue in store._queues)

    assert swept() <= QUEUES_PER_SWEEP
    while not store._expiry.sweep():
        pass
    assert swept() == len(store._queues)


def test_many_queue_files_are_deleted_in_slices() -> None:
    files = MemoryFiles()
    store = make_store(files, segment_size_bytes=65_536)
    store.open()
    for _ in range(900):
        put(store, "A", 0, b"x" * 20)
    store._housekeeping.write()
    before = len(paths(files, "consumequeue"))
    store._expiry.work(0)
    store._expiry.forget_oldest(0)
    assert len(paths(files, "consumequeue")) == before - FILES_PER_SWEEP
    while not store._expiry.sweep():
        pass
    assert len(paths(files, "consumequeue")) < before - 2 * FILES_PER_SWEEP


def test_a_segment_waits_until_a_checkpoint_covers_its_units() -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    fill(store)
    assert store._checkpoints.newest.durable.queue_offset < SEGMENT
    with pytest.raises(StoreUnavailableError, match=r"commitlog/0{20} can't be deleted before"):
        store._expiry.work(0)
    assert len(paths(files, "commitlog")) == len(store._log.segments)
    store._housekeeping.write()
    store._expiry.work(0)
    assert len(paths(files, "commitlog")) == len(store._log.segments) - 1
    assert store._checkpoints.newest.durable.queue_offset >= SEGMENT


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.EACCES])
def test_a_file_that_can_not_be_removed_is_removed_later(number: int) -> None:
    files = MemoryFiles()
    store = written(files)

    def fault(call: str, path: str) -> None:
        if call == "remove":
            raise OSError(number, os.strerror(number), path)

    files.fault = fault
    with pytest.raises(OSError, match=os.strerror(number)):
        drop_oldest(store)
    assert len(read_all(store, "A", 0)) == COUNT and store.is_writable
    files.fault = None
    assert drop_oldest(store) == SEGMENT


def test_a_directory_that_can_not_be_synced_makes_the_log_read_only() -> None:
    files = MemoryFiles()
    store = written(files)

    def fault(call: str, path: str) -> None:
        if call == "sync_dir" and path.endswith("commitlog"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = fault
    with pytest.raises(
        StoreUnavailableError, match=r"fsync of .*commitlog, where .*commitlog/0{20} was deleted, failed"
    ):
        drop_oldest(store)
    files.fault = None
    assert not store.is_writable and "read-only until" in store.problems[0]
    assert len(read_all(store, "A", 0)) == COUNT  # served from the file that is still open


def test_a_segment_deleted_by_hand_does_not_stop_retention() -> None:
    files = MemoryFiles()
    store = written(files)
    files.remove(f"{ROOT}/commitlog/{0:020d}")
    assert drop_oldest(store) == SEGMENT


def test_a_queue_file_that_can_not_be_removed_is_a_problem_until_the_next_pass() -> None:
    files = MemoryFiles()
    store = written(files)

    def fault(call: str, path: str) -> None:
        if call == "remove" and "consumequeue" in path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    before = len(paths(files, "consumequeue"))
    files.fault = fault
    for _ in range(3):
        drop_oldest(store)
    assert any("Input/output error" in problem for problem in store.problems)
    files.fault = None
    assert store._expiry.sweep() and len(paths(files, "consumequeue")) == before
    store._expiry.sweep_again()
    store._expiry.sweep()
    assert store.problems == [] and len(paths(files, "consumequeue")) < before


def test_nothing_is_deleted_before_the_store_is_open_or_after_it_was_closed() -> None:
    files = MemoryFiles()
    store = written(files)
    store.close()
    count = len(paths(files, "commitlog"))
    store._expiry.work(0)
    assert not store._expiry.forget_oldest(0)
    assert len(paths(files, "commitlog")) == count


def test_a_queue_without_messages_keeps_its_end_over_restarts_and_repairs() -> None:
    files = MemoryFiles()
    store = written(files)
    drop_oldest(store)
    assert (store.min_offset("B", 0), store.max_offset("B", 0)) == (5, 5)
    for stop in (MessageStore.close, die):
        stop(store)
        store = make_store(files.after_kill())
        store.open()
        assert (store.min_offset("B", 0), store.max_offset("B", 0)) == (5, 5)
    store.close()
    files.remove_tree(f"{ROOT}/consumequeue/A")  # rebuilt from the log, from its beginning
    store = make_store(files.after_kill())
    store.open()
    assert (store.min_offset("B", 0), store.max_offset("B", 0)) == (5, 5)
    assert store.min_offset("A", 0) > 0 and store.max_offset("A", 0) == COUNT
    assert put(store, "B", 0, b"next").queue_offset == 5
    assert [m.body for m in read_all(store, "B", 0)] == [b"next"]


def test_expired_queues_can_be_removed() -> None:
    files = MemoryFiles()
    store = written(files)
    assert store.expired_queues() == []
    drop_oldest(store)
    assert store.expired_queues() == [("B", 0)]
    store.delete_queues([("B", 0)])
    assert paths(files, "consumequeue/B") == [] and store.expired_queues() == []
    for stop in (MessageStore.close, die):
        stop(store)
        store = make_store(files.after_kill())
        assert store.open().notes == []
        assert list(store.queues()) == [("A", 0)] and store.max_offset("A", 0) == COUNT


# -- crashes ------------------------------------------------------------------------------------------------------

# Which unsynced data a power loss keeps. None stands for a kill, which keeps everything.
LOSSES: dict[str, Callable[[random.Random], bool] | None] = {
    "kill": None,
    "nothing": lambda chance: False,
    "all": lambda chance: True,
    "some": lambda chance: chance.random() < 0.5,
}


class Watched:
    """Runs a pass and records, before each changing call, the state of the disk and the last visible minimum."""

    def __init__(self, store: MessageStore, files: MemoryFiles) -> None:
        self._store = store
        self._files = files
        self.points: list[tuple[DiskSnapshot, int]] = []

    def __call__(self, call: str, path: str) -> None:
        if call in CHANGING:
            self.points.append((self._files.snapshot(), self._store.min_offset("A", 0)))


def crash_points(clock: ManualClock, *, drops: int, newer: int) -> list[tuple[DiskSnapshot, int]]:
    """Return the states at every call of a pass that drops segments; ``newer`` messages are in no checkpoint."""
    files = MemoryFiles(now_ms=clock.now_ms)
    store = written(files, clock)
    fill(store, newer, start=COUNT)
    store._housekeeping.write()
    watched = Watched(store, files)
    files.fault = watched
    for _ in range(drops):
        drop_oldest(store)
        fill(store, 1, start=COUNT + newer)
        newer += 1
    watched("sync", "the end")
    return watched.points


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("drops", "newer"), [(4, 0), (4, 15), (7, 130)])  # the last one reaches behind the checkpoint
def test_a_crash_at_any_call_loses_only_expired_data(loss: str, drops: int, newer: int) -> None:
    clock = ManualClock()
    keep = LOSSES[loss]
    points = crash_points(clock, drops=drops, newer=newer)
    assert len(points) >= 30
    for number, (snapshot, minimum) in enumerate(points):
        chance = random.Random(number)
        if keep is None:
            image = snapshot.image()
        else:
            image = snapshot.after_power_loss(
                lambda path, page, c=chance: keep(c), lambda path, c=chance: keep(c), lambda path, c=chance: keep(c)
            )
        store = make_store(MemoryFiles.restored(image, now_ms=clock.now_ms), clock)
        report = store.open()
        assert report.damaged == [], (loss, number)
        found = everything(store)  # dense from minimum to maximum
        low, high = store.min_offset("A", 0), store.max_offset("A", 0)
        assert found.get(("A", 0), []) == [b"a-%d" % offset for offset in range(low, high)]
        assert minimum <= low and high >= COUNT, (loss, number, minimum, low, high)
        assert store.max_offset("B", 0) == 5
        for offset in {low, high - 1} & set(range(low, high)):
            assert found_by_key(store, "A", f"k{offset}") == [b"a-%d" % offset]
        # The pass continues where it stopped, leftovers included.
        assert put(store, "A", 0, b"a-%d" % high).queue_offset == high
        store._housekeeping.write()
        drop_oldest(store)
        low = store.min_offset("A", 0)
        assert isinstance(store._files, MemoryFiles)
        first_file = int(paths(store._files, "consumequeue/A/0")[0][-20:]) // 20
        assert first_file > low - 3 * UNITS_PER_FILE
        assert put(store, "B", 0, b"b").queue_offset == 5

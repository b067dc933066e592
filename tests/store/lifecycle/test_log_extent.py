"""A log whose segments are gone: the start says which, and gives no offset twice."""

from __future__ import annotations

import pytest

from pymq.clock import ManualClock
from pymq.errors import StoreError
from pymq.store.disk.checkpoint import LOG_BEGIN_UNKNOWN, CheckpointFile
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.replica.epoch_table import ENDED_AT, ENTRIES, epoch_table
from pymq.store.store import MessageStore
from tests.store.support import ROOT, die, drop_oldest, make_store, put

SEGMENT = 4096


def segment(start: int) -> str:
    return f"{ROOT}/commitlog/{start:020d}"


def filled(files: MemoryFiles, segments: int = 4) -> MessageStore:
    """Return an open store whose log ends in its segment number ``segments``."""
    store = make_store(files)
    store.open()
    number = 0
    while len(store._log.segments) < segments or number % 3:
        put(store, "T", number % 3, b"%d" % number, keys=f"k{number}")
        number += 1
    return store


def missing(files: MemoryFiles, *, as_replica: bool = False) -> str:
    store = make_store(files)
    if as_replica:
        store.follow()
    with pytest.raises(StoreError) as error:
        store.open()
    return str(error.value)


@pytest.mark.parametrize("lost", [[3], [2, 3], [1, 2, 3], [0, 1, 2, 3]])
def test_a_lost_end_is_refused_and_nothing_changes(lost: list[int]) -> None:
    files = MemoryFiles()
    filled(files).close()
    kept = {path: bytes(node.data) for path, node in files.nodes.items()}
    for number in lost:
        files.remove(segment(number * SEGMENT))
    before = {path: bytes(node.data) for path, node in files.nodes.items()}
    for _ in range(2):
        text = missing(files)
        first, last = f"{lost[0] * SEGMENT:020d}", f"{lost[-1] * SEGMENT:020d}"
        assert f"segments {first} to {last} are missing" in text or f"segment {first} is missing" in text
        assert "put the files back" in text and "pymq store accept-loss" in text and "pymq store recover" in text
        assert {path: bytes(node.data) for path, node in files.nodes.items()} == before
    # With the files put back everything is as before: the stop still counts as a clean one.
    for path, raw in kept.items():
        files.open(path, create=True).pwrite(0, raw)
    store = make_store(files)
    assert store.open().clean and store.max_offset("T", 0) > 0


def test_a_lost_end_is_seen_after_a_kill_soon_after_the_segment_was_made() -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    while len(store._log.segments) < 3:
        put(store, "T", 0, b"x")
        store.tick()
        store.sync()  # long before the next checkpoint is due by time
    die(store)
    files.remove(segment(2 * SEGMENT))
    assert f"segment {2 * SEGMENT:020d} is missing" in missing(files)


def test_a_checkpoint_that_is_lost_too_leaves_the_epoch_history_and_the_queues() -> None:
    for witness in ("epochs", "queues", "one unit", "none"):
        files = MemoryFiles()
        store = filled(files)
        end = store.physical_max_offset
        store.close()
        files.remove(segment(3 * SEGMENT))
        files.remove(f"{ROOT}/checkpoint")
        if witness == "epochs":
            epoch_table(files, ROOT).save({ENTRIES: [], ENDED_AT: end})
            files.remove_tree(f"{ROOT}/consumequeue")
            assert "epochHistory.json it was on the disk up to" in missing(files)
        elif witness == "queues":
            assert "by its queues it was on the disk up to" in missing(files)
        else:
            # One unit may have a flipped bit, and no witness is left: the log goes on where it ends.
            files.remove_tree(f"{ROOT}/consumequeue")
            store = make_store(files)
            assert store.open().lost == []


def test_a_single_unit_with_a_flipped_bit_does_not_keep_a_broker_from_starting() -> None:
    files = MemoryFiles()
    store = filled(files, 1)
    store.close()
    files.remove(f"{ROOT}/checkpoint")
    queue = store._queues.make("T", 0)
    node = files.nodes[f"{ROOT}/consumequeue/T/0/{0:020d}"]
    node.data[(queue.max_offset - 1) * 20 + 4] ^= 1  # 16 MiB further
    assert make_store(files).open().lost == []


def test_a_slave_says_what_it_lost_and_follows_from_there() -> None:
    files = MemoryFiles()
    filled(files).close()
    files.remove(segment(3 * SEGMENT))
    store = make_store(files)
    follower = store.follow()
    report = store.open()
    assert [f"segment {3 * SEGMENT:020d} is missing" in text for text in report.lost] == [True]
    assert "this slave gets them from its master again" in report.lost[0]
    assert follower.end == 3 * SEGMENT
    store.close()
    store = make_store(files)
    store.follow()
    assert store.open().lost == []


@pytest.mark.parametrize("number", [1, 2])
def test_a_lost_segment_in_the_middle_is_refused_with_its_name(number: int) -> None:
    files = MemoryFiles()
    filled(files).close()
    files.remove(segment(number * SEGMENT))
    for as_replica in (False, True):
        text = missing(files, as_replica=as_replica)
        assert f"segment {number * SEGMENT:020d} is missing; put the files back" in text


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_lost_begin_is_said_once_and_the_rest_is_served(is_clean: bool) -> None:
    files = MemoryFiles()
    store = filled(files)
    store.tick()
    store.checkpoint()
    end = store.max_offset("T", 0)
    if is_clean:
        store.close()
    else:
        die(store)
    files.remove(segment(0))
    store = make_store(files)
    report = store.open()
    assert [f"segment {0:020d} is missing" in text for text in report.lost] == [True]
    assert report.lost[0] in store.problems
    assert store.max_offset("T", 0) == end and store.min_offset("T", 0) > 0
    store.close()
    store = make_store(files)
    assert store.open().lost == [] and store.problems == []


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_retention_deletes_is_no_loss(is_clean: bool) -> None:
    files = MemoryFiles()
    store = filled(files)
    store.tick()
    drop_oldest(store)
    start = store.physical_min_offset
    store.delete_segment(start)  # the file is gone, and then the broker stops
    if is_clean:
        store.close()
    else:
        die(store)
    assert not files.exists(segment(start))
    assert make_store(files).open().lost == []


def test_a_slave_that_begins_late_lost_nothing() -> None:
    files = MemoryFiles()
    store = make_store(files)
    follower = store.follow()
    store.open()
    follower.start_at(5 * SEGMENT)
    die(store)
    store = make_store(files)
    store.follow()
    assert store.open().lost == []


def test_an_older_checkpoint_says_nothing_about_the_begin() -> None:
    files = MemoryFiles()
    filled(files).close()
    checkpoint = CheckpointFile(files, f"{ROOT}/checkpoint").load()
    assert checkpoint.durable is not None and checkpoint.durable.log_begin == 0
    files.nodes[f"{ROOT}/checkpoint"].data[140:160] = bytes(20)
    checkpoint = CheckpointFile(files, f"{ROOT}/checkpoint").load()
    assert checkpoint.durable is not None and checkpoint.durable.log_begin == LOG_BEGIN_UNKNOWN
    files.remove(segment(0))
    assert make_store(files).open().lost == []


def test_a_queue_without_records_vouches_for_nothing() -> None:
    """A queue whose records are all deleted is made again of blank units, which lead nowhere."""
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock)
    store.open()
    for number in range(2):
        put(store, "Old", 0, b"%d" % number)
    while store.physical_max_offset < 2 * 4096:
        put(store, "New", 0, b"x" * 500)
    clock.advance(20_000)
    store.tick()
    store.checkpoint()
    drop_oldest(store)
    die(store)
    files.remove_tree(f"{ROOT}/consumequeue")
    store = make_store(files, clock)
    store.open()
    store.close()
    files.remove(f"{ROOT}/checkpoint")
    store = make_store(files, clock)
    store.open()
    assert store.max_offset("Old", 0) == 2
    store.close()

"""Lost segments with inner batches: neither giving them up nor a repair gives an offset twice or shows half a batch."""

from __future__ import annotations

import pytest

from pymq.clock import ManualClock
from pymq.model.inner_batch import unwrapped
from pymq.model.record import StoredMessage, decode_records
from pymq.offline.directory import open_directory
from pymq.offline.repair import RepairReport, repair
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.store import MessageStore
from tests.offline.test_accept_loss import ends, give_up, is_sound
from tests.store.lifecycle.test_log_extent import SEGMENT, segment
from tests.store.support import ROOT, die, make_store, stage
from tests.store.test_batch_model import BATCHES, PLAIN, stage_batch, write_topics

FILE_UNITS = 7
Found = dict[int, tuple[bytes, int]]  # offset of a message -> its body, and where its record begins


def opened(files: MemoryFiles, root: str = ROOT) -> MessageStore:
    store = make_store(files, root=root, batch_queue_file_size_bytes=46 * FILE_UNITS)
    store.open()
    return store


def filled(files: MemoryFiles) -> MessageStore:
    """Return an open store with inner batches in all of its four segments."""
    write_topics(files)
    store = opened(files)
    number = 0
    while len(store._log.segments) < 4 or number % 10:
        stage_batch(store, BATCHES, number % 2, [b"%d-%d" % (number, at) for at in range(number % 5 + 1)])
        stage(store, PLAIN, 0, b"%d" % number)
        store.commit()
        number += 1
    return store


def found(store: MessageStore, queue_id: int) -> Found:
    messages = unwrapped(read_records(store, queue_id))
    return {message.queue_offset: (message.body, message.physical_offset) for message in messages}


def read_records(store: MessageStore, queue_id: int) -> list[StoredMessage]:
    records: list[StoredMessage] = []
    offset = store.min_offset(BATCHES, queue_id)
    while offset < store.max_offset(BATCHES, queue_id):
        result = store.get(BATCHES, queue_id, offset, 32, 1 << 20)
        assert result.next_offset > offset
        records += decode_records(b"".join(result.chunks))
        offset = result.next_offset
    return records


def without(before: Found, lost: list[int]) -> Found:
    return {offset: one for offset, one in before.items() if one[1] // SEGMENT not in lost}


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("lost", [[3], [2, 3], [1], [1, 3]])
def test_given_up_batches_keep_their_offsets(lost: list[int], is_clean: bool) -> None:
    files = MemoryFiles()
    store = filled(files)
    store._housekeeping.write()
    store.checkpoint()
    old_ends, before = ends(store), [found(store, queue_id) for queue_id in range(2)]
    if is_clean:
        store.close()
    else:
        die(store)
    for number in lost:
        files.remove(segment(number * SEGMENT))
    report = give_up(files)
    gone = sum(len(queue) - len(without(queue, lost)) for queue in before)
    assert sum(one["count"] for one in report.lost if one["topic"] == BATCHES) == gone > 0
    store = opened(files)
    assert ends(store) == old_ends
    assert [found(store, queue_id) for queue_id in range(2)] == [without(queue, lost) for queue in before]
    die(store)  # before anything is sent: the ends must be on the disk
    store = opened(files)
    assert ends(store) == old_ends
    placed = stage_batch(store, BATCHES, 0, [b"new 1", b"new 2"])
    store.commit()
    assert placed.queue_offset == old_ends[BATCHES, 0]
    assert found(store, 0).keys() - before[0].keys() == {placed.queue_offset, placed.queue_offset + 1}
    store.close()
    assert is_sound(files)


def mended(files: MemoryFiles) -> RepairReport:
    files.makedirs("/copy")
    options = {"maxHashSlotNum": "7", "maxIndexNum": "20", "mapperFileSizeBatchConsumeQueue": str(46 * FILE_UNITS)}
    directory = open_directory(files, ROOT, options=options)
    try:
        return repair(directory, files, "/copy", ManualClock())
    finally:
        directory.close()


@pytest.mark.parametrize("lost", [[], [3], [2, 3], [1], [1, 3]])
def test_a_repair_keeps_offsets_and_names_lost_batches(lost: list[int]) -> None:
    files = MemoryFiles()
    store = filled(files)
    old_ends, before = ends(store), [found(store, queue_id) for queue_id in range(2)]
    store.close()
    for number in lost:
        files.remove(segment(number * SEGMENT))
    report = mended(files)
    copy = opened(files, "/copy")
    assert [found(copy, queue_id) for queue_id in range(2)] == [without(queue, lost) for queue in before]
    named = {
        (one["queue_id"], offset)
        for one in report.lost
        if one["topic"] == BATCHES
        for offset in range(one["from_offset"], one["to_offset"] + 1)
    }
    assert named == {
        (queue_id, offset) for queue_id, queue in enumerate(before) for offset in queue.keys() - without(queue, lost)
    }
    assert ends(copy) == old_ends
    die(copy)
    copy = opened(files, "/copy")
    assert ends(copy) == old_ends
    assert stage_batch(copy, BATCHES, 0, [b"new"]).queue_offset == old_ends[BATCHES, 0]
    copy.commit()
    copy.close()


def test_a_repair_without_the_first_segment_begins_where_the_log_does() -> None:
    files = MemoryFiles()
    store = filled(files)
    before = [found(store, queue_id) for queue_id in range(2)]
    store.close()
    files.remove(segment(0))
    assert mended(files).lost == []
    copy = opened(files, "/copy")
    assert [found(copy, queue_id) for queue_id in range(2)] == [without(queue, [0]) for queue in before]
    copy.close()


def test_a_kill_before_units_were_written_costs_no_offset() -> None:
    files = MemoryFiles()
    store = filled(files)
    store.checkpoint()  # of the log; then some units reach the disk
    for queue_id in range(2):
        store._queues.write_tail(store._queues.make(BATCHES, queue_id))
    old_ends = ends(store)
    die(store)
    files.remove(segment(3 * SEGMENT))
    give_up(files)
    for _ in range(2):
        store = opened(files)
        assert [store.max_offset(BATCHES, queue_id) for queue_id in range(2)] == [
            old_ends[BATCHES, 0],
            old_ends[BATCHES, 1],
        ]
        store.checkpoint()
        die(store)

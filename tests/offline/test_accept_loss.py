"""Giving up lost segments: a broker starts again, gives no offset twice, and consumers go on behind the gap."""

from __future__ import annotations

import errno

import pytest

from pymq.clock import ManualClock
from pymq.errors import NotFoundError, StoreError
from pymq.offline.accept_loss import AcceptedLoss, accept_loss
from pymq.offline.directory import open_directory
from pymq.offline.repair import repair
from pymq.offline.verify import verify
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.disk.saved_tables import SavedTables
from pymq.store.replica.epoch_table import ENDED_AT, ENTRIES, epoch_table
from pymq.store.store import MessageStore
from tests.store.lifecycle.test_log_extent import SEGMENT, filled, missing, segment
from tests.store.support import ROOT, die, found_by_key, make_store, put, read_all

NEW_ID = "00112233445566ff"


def give_up(files: MemoryFiles, *, is_confirmed: bool = True) -> AcceptedLoss:
    directory = open_directory(files, ROOT)
    try:
        return accept_loss(directory, files, NEW_ID, is_confirmed=is_confirmed)
    finally:
        directory.close()


def is_sound(files: MemoryFiles) -> bool:
    directory = open_directory(files, ROOT)
    try:
        return verify(directory).sound
    finally:
        directory.close()


def ends(store: MessageStore) -> dict[tuple[str, int], int]:
    return {(topic, queue_id): store.max_offset(topic, queue_id) for topic, queue_id in store.queues()}


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("lost", [[3], [2, 3], [1], [1, 3]])
def test_a_broker_starts_again_and_gives_no_offset_twice(lost: list[int], is_clean: bool) -> None:
    files = MemoryFiles()
    store = filled(files)
    store._housekeeping.write()
    store.checkpoint()
    old_end, old_ends = store.physical_max_offset, ends(store)
    gone = {
        message.message_id
        for topic, queue_id in old_ends
        for message in read_all(store, topic, queue_id)
        if message.physical_offset // SEGMENT in lost
    }
    if is_clean:
        store.close()
    else:
        die(store)
    for number in lost:
        files.remove(segment(number * SEGMENT))
    assert "is missing" in missing(files) or "are missing" in missing(files)
    assert not is_sound(files)
    before = {path: bytes(node.data) for path, node in files.nodes.items()}
    plan = give_up(files, is_confirmed=False)
    assert {path: bytes(node.data) for path, node in files.nodes.items()} == before
    report = give_up(files)
    assert report == plan and report.segments == [number * SEGMENT for number in lost]
    assert report.lost_count == len(gone)
    assert give_up(files).segments == []
    store = make_store(files)
    opened = store.open()
    assert (opened.lost, opened.damaged, opened.truncated_bytes) == ([], [], 0)
    assert ends(store) == old_ends
    assert store.physical_max_offset >= old_end
    placed = put(store, "T", 0, b"behind", keys="new")
    assert placed.queue_offset == old_ends["T", 0] and placed.physical_offset >= old_end
    for topic, queue_id in old_ends:
        found = [message.physical_offset for message in read_all(store, topic, queue_id)]
        assert found == sorted(set(found)) and not any(place // SEGMENT in lost and place < old_end for place in found)
    assert read_all(store, "T", 0)[-1].body == b"behind"
    store.insert_waiting_keys()
    assert found_by_key(store, "T", "new") == [b"behind"] and found_by_key(store, "T", "k0") == [b"0"]
    store.close()
    assert is_sound(files)


def test_after_a_kill_what_is_left_is_dispatched_and_ends_are_those_of_the_queue_files() -> None:
    files = MemoryFiles()
    store = filled(files)
    store.checkpoint()  # of the log: no unit is in a file yet
    for queue_id in (0, 1):
        store._queues.write_tail(store._queues.make("T", queue_id))
    old_ends = ends(store)
    die(store)
    files.remove(segment(3 * SEGMENT))
    assert "is missing" in missing(files)
    give_up(files)
    store = make_store(files)
    assert store.open().damaged == []
    assert all(store.max_offset("T", queue_id) == old_ends["T", queue_id] for queue_id in (0, 1))
    for queue_id in range(3):
        kept = [message.queue_offset for message in read_all(store, "T", queue_id)]
        assert kept == list(range(len(kept))) and 0 < len(kept) < old_ends["T", queue_id]
    store.close()
    assert is_sound(files) and not files.exists(f"{ROOT}/config/queueEnds.json")


@pytest.mark.slow
def test_a_crash_at_any_call_leaves_a_directory_that_another_call_finishes() -> None:
    calls = 0
    while True:
        files = MemoryFiles()
        store = filled(files)
        old_end, old_ends = store.physical_max_offset, ends(store)
        store.close()
        epoch_table(files, ROOT).save({ENTRIES: [], ENDED_AT: old_end})
        for number in (2, 3):
            files.remove(segment(number * SEGMENT))
        files.sync_dir(f"{ROOT}/commitlog")
        left = calls

        def fault(call: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.EIO, "it ends here", path)

        directory = open_directory(files, ROOT)
        files.fault = fault
        try:
            accept_loss(directory, files, NEW_ID, is_confirmed=True)
            is_done = True
        except (OSError, StoreError) as error:
            assert "it ends here" in str(error)
            is_done = False
        files = files.after_power_loss(lambda path, page: False, lambda path: False)
        if not is_done:
            assert "missing" in missing(files)
            give_up(files)
        store = make_store(files)
        store.open()
        assert ends(store) == old_ends and store.physical_max_offset >= old_end
        store.close()
        if is_done:
            break
        calls += 1
    assert calls > 20


def test_slaves_see_that_the_end_is_another_one() -> None:
    files = MemoryFiles()
    store = filled(files)
    end = store.physical_max_offset
    store.close()
    entries = [
        {"epoch": 1, "start": 0, "epochId": "a" * 16},
        {"epoch": 2, "start": 2 * SEGMENT, "epochId": "b" * 16},
        {"epoch": 3, "start": 3 * SEGMENT + 5, "epochId": "c" * 16},
    ]
    epoch_table(files, ROOT).save({ENTRIES: entries, ENDED_AT: end})
    files.remove(segment(3 * SEGMENT))
    give_up(files)
    new = {"epoch": 3, "start": 3 * SEGMENT, "epochId": NEW_ID}
    assert epoch_table(files, ROOT).load() == {ENTRIES: [*entries[:2], new]}


def test_a_log_without_any_segment_is_refused() -> None:
    files = MemoryFiles()
    filled(files, 1).close()
    files.remove(segment(0))
    with pytest.raises(NotFoundError, match="holds no segment: rebuild"):
        give_up(files)


@pytest.mark.parametrize("lost", [[3], [2, 3], [1]])
def test_a_repair_gives_no_offset_twice_either(lost: list[int]) -> None:
    files = MemoryFiles()
    store = filled(files)
    old_end, old_ends = store.physical_max_offset, ends(store)
    store.close()
    for number in lost:
        files.remove(segment(number * SEGMENT))
    files.makedirs("/copy")
    directory = open_directory(files, ROOT, options={"maxHashSlotNum": "7", "maxIndexNum": "20"})
    report = repair(directory, files, "/copy", ManualClock())
    directory.close()
    assert report.lost_count > 0
    copy = make_store(files, root="/copy")
    copy.open()
    assert ends(copy) == old_ends
    assert put(copy, "T", 0, b"behind").physical_offset >= old_end
    copy.close()


def test_tables_that_are_gone_are_given_up_when_that_is_confirmed() -> None:
    files = MemoryFiles()
    filled(files).close()
    saved = SavedTables(files, ROOT)
    saved.note("consumerOffset.json")
    for is_confirmed, left in ((False, ["consumerOffset.json"]), (True, [])):
        assert list(give_up(files, is_confirmed=is_confirmed).as_json()["missing_tables"]) == ["consumerOffset.json"]
        assert saved.missing() == left

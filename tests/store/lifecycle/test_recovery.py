"""Starts after clean stops, kills and damage: they read little, make nothing up, and report what they drop."""

from __future__ import annotations

import errno
import os
import random
import struct
from dataclasses import replace
from typing import Any

import pytest

from pymq.clock import ManualClock
from pymq.errors import CorruptRecordError, StoreError
from pymq.model.draft import Draft
from pymq.model.layout import BLANK_UNIT_SIZE, PLACEHOLDER_CODE
from pymq.model.names import SCHEDULE_TOPIC
from pymq.model.record import StoredMessage, decode_records
from pymq.offline.directory import open_directory
from pymq.offline.verify import verify
from pymq.store.disk.checkpoint import CheckpointFile
from pymq.store.disk.fs import File
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.lifecycle import recovery
from pymq.store.lifecycle.recovery import RecoveryReport
from pymq.store.scan import fast_scanner
from pymq.store.store import MessageStore
from tests.store.support import (
    BORN,
    ROOT,
    bodies,
    die,
    drop_oldest,
    everything,
    found_by_key,
    make_store,
    put,
    read_all,
)

LOG = f"{ROOT}/commitlog/{0:020d}"


def filled(files: MemoryFiles, count: int = 20, **settings: int) -> MessageStore:
    sizes: dict[str, Any] = {"segment_size_bytes": 1 << 16, **settings}
    store = make_store(files, **sizes)
    store.open()
    for i, body in enumerate(bodies(count)):
        put(store, "T", i % 2, body, tags="A", keys=f"k{i}")
    return store


def reopen(files: MemoryFiles, **settings: int) -> tuple[MessageStore, RecoveryReport]:
    sizes: dict[str, Any] = {"segment_size_bytes": 1 << 16, **settings}
    store = make_store(files, **sizes)
    return store, store.open()


def contents(count: int) -> dict[tuple[str, int], list[bytes]]:
    return {("T", q): [b for i, b in enumerate(bodies(count)) if i % 2 == q] for q in range(2) if count > q}


def test_a_clean_start_reads_no_record() -> None:
    files = MemoryFiles()
    filled(files).close()
    store, report = reopen(files)
    assert (report.clean, report.records_scanned, report.truncated_bytes) == (True, 0, 0)
    assert everything(store) == contents(20)


def test_an_unclean_start_reads_only_records_behind_the_checkpoint() -> None:
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock)
    store.open()
    for body in bodies(50):
        put(store, "T", 0, body)
    clock.advance(60_000)
    store.tick()
    store.sync()
    for body in bodies(3, 50):
        put(store, "T", 0, body)
    die(store)
    store, report = reopen(files, segment_size_bytes=4096)
    assert (report.clean, report.records_scanned, report.units_added) == (False, 3, 3)
    assert [m.body for m in read_all(store, "T", 0)] == list(bodies(53))


def test_the_abort_file_exists_while_serving() -> None:
    files = MemoryFiles()
    store = filled(files)
    assert files.exists(f"{ROOT}/abort")
    store.close()
    assert not files.exists(f"{ROOT}/abort")


def test_a_torn_tail_is_truncated_zeroed_and_overwritten() -> None:
    files = MemoryFiles()
    store = filled(files)
    last = store._queues.make("T", 1).unit(9)[0]
    die(store)  # nothing was synced
    size = store.settings.segment_size_bytes
    files.nodes[LOG].data[last + 60 : last + 400] = bytes(340)
    remains = files.read_bytes(LOG)[last:size].strip(b"\0")
    store, report = reopen(files)
    assert (report.log_end, report.damaged) == (last, [])
    assert report.truncated_bytes == len(remains) > 0, "the unwritten rest of the segment doesn't count"
    assert not any(files.read_bytes(LOG)[last:size])
    assert everything(store) == {("T", 0): contents(20)["T", 0], ("T", 1): contents(20)["T", 1][:9]}
    assert found_by_key(store, "T", "k19") == []
    assert put(store, "T", 1, b"next").queue_offset == 9


@pytest.mark.parametrize("lost_count", [1, 2, 6])
def test_a_record_whose_last_bytes_never_arrived_is_truncated(lost_count: int) -> None:
    """Only its properties are incomplete. No CRC covers them, but a broker ends them with a separator."""
    files = MemoryFiles()
    store = filled(files)
    end = store.physical_max_offset
    die(store)
    files.nodes[LOG].data[end - lost_count : end] = bytes(lost_count)
    store, report = reopen(files)
    assert report.damaged == []
    assert everything(store) == {("T", 0): contents(20)["T", 0], ("T", 1): contents(20)["T", 1][:9]}


def test_damage_in_the_middle_is_skipped_and_reported() -> None:
    files, clock = MemoryFiles(), ManualClock()
    store = filled(files)
    store.sync()
    store._checkpoints.save()
    start, size, _ = store._queues.make("T", 0).unit(4)
    store.close()
    for name in ("consumequeue", "index"):
        files.remove_tree(f"{ROOT}/{name}")
    files.nodes[LOG].data[start + 90] ^= 1  # in the body
    store, report = reopen(files)
    assert report.damaged == [(start, start + size)]
    assert any("offsets 4 to 4" in note for note in report.notes)
    assert [m.queue_offset for m in read_all(store, "T", 0)] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert len(read_all(store, "T", 1)) == 10
    assert clock.now_ms() > 0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_rebuild_skips_damage_at_the_log_s_beginning(count: int) -> None:
    """The checkpoint's time must not make the good but older records behind it count as remains."""
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock, segment_size_bytes=1 << 16)
    store.open()
    for i, body in enumerate(bodies(20)):
        clock.advance(1000)
        put(store, "T", i % 2, body)
    places = [store._queues.make("T", i % 2).unit(i // 2)[0] for i in range(20)]
    store.close()
    files.remove_tree(f"{ROOT}/consumequeue")
    for place in places[:count]:
        files.nodes[LOG].data[place + 4] ^= 1
    store, report = reopen(files)
    assert report.damaged == [(0, places[count])] and report.log_end == store.physical_max_offset
    found = [(message.queue_id, message.queue_offset) for q in (0, 1) for message in read_all(store, "T", q)]
    assert sorted(found) == sorted((i % 2, i // 2) for i in range(count, 20))


@pytest.mark.parametrize("bulk", [False, True])
def test_lost_offsets_of_the_first_segment_have_placeholders(bulk: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocketMQ would skip good messages behind a blank unit there; PyMQ reads past either."""
    if bulk:
        monkeypatch.setattr(fast_scanner, "PLAIN_BYTES_MAX", 0)
    files = MemoryFiles()
    store = filled(files)
    units = [store._queues.make("T", 0).unit(offset) for offset in range(10)]
    store.close()
    files.remove_tree(f"{ROOT}/consumequeue")
    for offset in (0, 1, 4):
        files.nodes[LOG].data[units[offset][0] + 4] ^= 1
    store, report = reopen(files)
    queue = store._queues.make("T", 0)
    for offset, neighbor in {0: 2, 1: 2, 4: 5}.items():
        assert queue.unit(offset) == (*units[neighbor][:2], PLACEHOLDER_CODE)
    assert [queue.unit(offset) for offset in (2, 3, 5, 6)] == [units[offset] for offset in (2, 3, 5, 6)]
    assert [m.queue_offset for m in read_all(store, "T", 0)] == [2, 3, 5, 6, 7, 8, 9]
    assert any("lacks offsets 0 to 1" in note for note in report.notes)
    assert put(store, "T", 0, b"next").queue_offset == 10
    store.close()
    store, report = reopen(files)
    assert report.damaged == [] and [m.queue_offset for m in read_all(store, "T", 0)] == [2, 3, 5, 6, 7, 8, 9, 10]


def test_lost_offsets_elsewhere_have_blank_units() -> None:
    files = MemoryFiles()
    store = filled(files, 60, segment_size_bytes=4096)
    offset, (place, _, _) = next(
        (offset, unit)
        for offset in range(30)
        if (unit := store._queues.make("T", 0).unit(offset))[0] > 4096 and (unit[0] + unit[1]) % 4096 > 100
    )
    store.close()
    files.remove_tree(f"{ROOT}/consumequeue")
    files.nodes[f"{ROOT}/commitlog/{place - place % 4096:020d}"].data[place % 4096 + 4] ^= 1
    store, _ = reopen(files, segment_size_bytes=4096)
    assert store._queues.make("T", 0).unit(offset) == (0, BLANK_UNIT_SIZE, 0)
    assert [m.queue_offset for m in read_all(store, "T", 0)] == [i for i in range(30) if i != offset]


FAR = 0x10  # in the third byte of a store time: 557 years
STORE_TIME_AT = 58


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("victims", [[4], [8], [9], [0, 9], [4, 5]])
def test_a_damaged_store_time_is_not_passed_on(victims: list[int], bulk: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if bulk:
        monkeypatch.setattr(fast_scanner, "PLAIN_BYTES_MAX", 0)
    files, clock = MemoryFiles(), ManualClock()
    settings: dict[str, Any] = {"segment_size_bytes": 1 << 16, "digests_enabled": False}
    store = make_store(files, clock, **settings)
    store.open()
    for body in bodies(10):
        clock.advance(1000)
        put(store, "T", 0, body)
    places = [store._queues.make("T", 0).unit(offset)[0] for offset in range(10)]
    die(store)
    for victim in victims:
        files.nodes[LOG].data[places[victim] + STORE_TIME_AT] ^= FAR
    store = make_store(files, clock, **settings)
    store.open()
    last_ms = clock.now_ms() - 1000 * (victims[-1] == 9)
    assert store._log.last_store_ms == last_ms
    clock.advance(5)
    put(store, "T", 0, b"next")
    assert store.store_time("T", 0, 10) == clock.now_ms()
    assert store.offset_by_time("T", 0, clock.now_ms()) <= 10
    # Nor does the checkpoint keep later times high.
    store.sync()
    store._checkpoints.save()
    die(store)
    store = make_store(files, clock, **settings)
    store.open()
    assert store._log.last_store_ms == clock.now_ms()


def test_damage_behind_a_damaged_store_time_costs_only_itself() -> None:
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock, segment_size_bytes=1 << 16)
    store.open()
    for body in bodies(10):
        clock.advance(1000)
        put(store, "T", 0, body)
    places = [store._queues.make("T", 0).unit(offset)[0] for offset in range(10)]
    store.close()
    files.remove_tree(f"{ROOT}/consumequeue")
    files.nodes[LOG].data[places[4] + STORE_TIME_AT] ^= FAR
    files.nodes[LOG].data[places[5] + 4] ^= 1
    store = make_store(files, clock, segment_size_bytes=1 << 16, digests_enabled=False)
    report = store.open()
    assert report.damaged == [(places[5], places[6])]
    assert [m.queue_offset for m in read_all(store, "T", 0)] == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_a_clock_set_back_does_not_set_back_the_store_time() -> None:
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock)
    store.open()
    put(store, "T", 0, b"x")
    newest_ms = clock.now_ms()
    clock.set_wall(newest_ms - 3_600_000)
    put(store, "T", 0, b"x")
    die(store)
    store = make_store(files, clock)
    store.open()
    put(store, "T", 0, b"x")
    assert [store.store_time("T", 0, offset) for offset in range(3)] == [newest_ms] * 3


@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_damage_in_a_time_of_a_wrong_clock_hides_no_later_record(is_rebuilt: bool) -> None:
    """Later records look older than those before the damage, but the checkpoint vouches for all of them."""
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock, segment_size_bytes=1 << 16, digests_enabled=False)
    store.open()
    now_ms = clock.now_ms()
    for number in range(10):
        clock.set_wall(now_ms + (10 * 365 * 86_400_000 if 2 <= number < 6 else number))
        put(store, "T", 0, b"%d" % number)
    places = [store._queues.make("T", 0).unit(offset)[0] for offset in range(10)]
    store.close()
    files.nodes[LOG].data[places[5] + 4] ^= 1
    report = verify(open_directory(files, ROOT))
    assert [finding.physical_offset for finding in report.findings if finding.kind == "log"] == [places[5] + 4]
    assert report.log_end > places[9]
    if is_rebuilt:
        files.remove_tree(f"{ROOT}/consumequeue")
    store = make_store(files, clock, segment_size_bytes=1 << 16, digests_enabled=False)
    store.open()
    found = {m.body for offset in (0, 6) for m in _pulled(store, offset)}
    assert found == {b"%d" % number for number in range(10) if number != 5}


def _pulled(store: MessageStore, offset: int) -> list[StoredMessage]:
    return decode_records(b"".join(store.get("T", 0, offset, 32, 1 << 20).chunks))


@pytest.mark.slow
@pytest.mark.parametrize(("rebuild", "lost_max"), [(False, 1), (True, 2)])
def test_a_flipped_byte_of_the_log_costs_its_message(rebuild: bool, lost_max: int) -> None:
    """Flips a bit in each 17th byte of 100 messages (no record has such a length, so flips hit every field).

    When the queues are deleted too, a flipped queue id can make two records claim one offset. Nothing tells which is
    right, because RocketMQ's CRC covers the body alone.
    """
    files = MemoryFiles()
    store = filled(files, 100)
    end = store.physical_max_offset
    store.close()
    raw = files.read_bytes(LOG)
    before = {path: bytes(node.data) for path, node in files.nodes.items()}
    chance = random.Random(11)
    for at in range(0, end, 17):
        flipped = bytearray(raw)
        flipped[at] ^= 1 << chance.randrange(8)
        for path, content in before.items():
            files.open(path, create=True)
            files.nodes[path].data = bytearray(content)
        files.nodes[LOG].data = flipped
        if rebuild:
            files.remove_tree(f"{ROOT}/consumequeue")
        store, _ = reopen(files, index_enabled=False)
        assert store.physical_max_offset == end
        found = {(q, m.queue_offset): m.body for q in (0, 1) for m in _readable(store, q)}
        wanted = {(q, i): body for (_, q), queue in contents(100).items() for i, body in enumerate(queue)}
        assert len(wanted.items() - found.items()) <= lost_max, f"byte {at}"
        die(store)
        files.remove(f"{ROOT}/abort")


def _readable(store: MessageStore, queue_id: int) -> list:
    from pymq.model.record import MalformedRecordError, decode_records

    found, offset = [], 0
    while offset < store.max_offset("T", queue_id):
        try:
            result = store.get("T", queue_id, offset, 1, 1 << 20)
            found += decode_records(b"".join(result.chunks))
            offset = max(result.next_offset, offset + 1)
        except (CorruptRecordError, MalformedRecordError):
            offset += 1
    return found


def test_the_index_survives_a_kill() -> None:
    files, clock = MemoryFiles(), ManualClock()
    sizes: dict[str, Any] = {"segment_size_bytes": 1 << 16, "index_slot_count": 50, "index_entry_count": 60}
    store = make_store(files, clock, **sizes)
    store.open()
    for i, body in enumerate(bodies(150)):
        put(store, "T", 0, body, keys=f"k{i}")
    store.tick()
    clock.advance(store.settings.checkpoint_interval_ms)
    store.tick()
    store.sync()
    names = files.listdir(f"{ROOT}/index")
    assert len(names) == 3
    for i, body in enumerate(bodies(10, 150)):
        put(store, "T", 0, body, keys=f"k{i + 150}")
    store.tick()  # these keys are in the newest file but not in the checkpoint
    die(store)
    store = make_store(files, clock, **sizes)
    report = store.open()
    assert (report.clean, report.records_scanned) == (False, 10)
    assert files.listdir(f"{ROOT}/index") == names
    assert [found_by_key(store, "T", f"k{i}") for i in range(160)] == [[body] for body in bodies(160)]


@pytest.mark.parametrize("lost", ["consumequeue", "consumequeue/T/1"])
@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("clean", [False, True])
def test_after_a_power_loss_during_a_rebuild_queues_do_not_count_as_synced(
    lost: str, foreign: bool, clean: bool
) -> None:
    """The old checkpoint covers units that the rebuild writes again and has not synced yet."""
    files, clock = MemoryFiles(), ManualClock()
    sizes: dict[str, Any] = {"segment_size_bytes": 1 << 18, "queue_file_size_bytes": 20_000}
    store = make_store(files, clock, **sizes)
    store.open()
    for body in bodies(400):
        put(store, "T", 0, body)
        put(store, "T", 1, body)
    clock.advance(60_000)
    if clean:
        store.close()
    else:
        store.tick()
        store.sync()
        put(store, "T", 0, b"later")
        die(store)
    if foreign:
        forget_block(files)
    files.remove_tree(f"{ROOT}/{lost}")
    files.sync_dir(f"{ROOT}/{lost}".rpartition("/")[0])
    snapshot: list[Any] = []

    def at_first_sync_of_a_queue(call: str, path: str) -> None:
        if call == "sync" and "/consumequeue/T/1/" in path and not snapshot:
            snapshot.append(files.snapshot())

    files.fault = at_first_sync_of_a_queue
    die_quietly = make_store(files, clock, **sizes)
    die_quietly.open()
    image = snapshot[0].after_power_loss(
        lambda path, page: "/consumequeue/" not in path or page != 3, lambda path: True
    )
    store = make_store(MemoryFiles.restored(image), clock, **sizes)
    store.open()
    wanted = list(bodies(400))
    assert everything(store) == {("T", 0): wanted if clean else [*wanted, b"later"], ("T", 1): wanted}


@pytest.mark.parametrize("foreign", [False, True])
def test_a_power_loss_during_a_rebuild_of_the_index_costs_no_key(foreign: bool) -> None:
    files, clock = MemoryFiles(), ManualClock()
    sizes: dict[str, Any] = {"segment_size_bytes": 1 << 18, "index_slot_count": 500, "index_entry_count": 100}
    store = make_store(files, clock, **sizes)
    store.open()
    for i, body in enumerate(bodies(250)):
        clock.advance(1000)
        put(store, "T", 0, body, keys=f"k{i}")
    store.close()
    if foreign:
        forget_block(files)
    files.remove_tree(f"{ROOT}/index")
    files.sync_dir(ROOT)
    snapshot: list[Any] = []

    def at_first_sync_of_the_index(call: str, path: str) -> None:
        if call == "sync" and "/index/" in path and not snapshot:
            snapshot.append(files.snapshot())

    files.fault = at_first_sync_of_the_index
    make_store(files, clock, **sizes).open()
    image = snapshot[0].after_power_loss(lambda path, page: "/index/" not in path or page != 5, lambda path: True)
    store = make_store(MemoryFiles.restored(image), clock, **sizes)
    store.open()
    assert [found_by_key(store, "T", f"k{i}") for i in range(250)] == [[body] for body in bodies(250)]


def forget_block(files: MemoryFiles) -> None:
    """Turn the checkpoint into one that RocketMQ wrote."""
    table = CheckpointFile(files, f"{ROOT}/checkpoint")
    table.save(replace(table.load(), durable=None))
    file = files.open(f"{ROOT}/checkpoint")
    file.pwrite(64, bytes(80))
    file.sync()


def full_for_queues(call: str, path: str) -> None:
    if call == "pwrite" and "/consumequeue/" in path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_keeps_units_in_memory_and_serves() -> None:
    files = MemoryFiles()
    die(filled(files, 200))
    files.remove_tree(f"{ROOT}/consumequeue")
    files.fault = full_for_queues
    store, report = reopen(files)
    assert report.notes == ["the disk is full: consume queues that were read again are held in memory"]
    assert everything(store) == contents(200)
    assert [problem for problem in store.problems if "consumequeue/T/0/0" in problem]
    files.fault = None
    store.tick()
    assert store.problems == []
    assert everything(store) == contents(200)


def test_a_full_disk_with_too_many_units_to_hold_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "HELD_BYTES_MAX", 199 * 20)
    files = MemoryFiles()
    die(filled(files, 200))
    files.remove_tree(f"{ROOT}/consumequeue")
    files.fault = full_for_queues
    with pytest.raises(StoreError, match="more than 3980 bytes: make room"):
        reopen(files)
    files.fault = None
    assert everything(reopen(files)[0]) == contents(200)


def test_another_error_of_the_disk_stops_the_start() -> None:
    files = MemoryFiles()
    die(filled(files, 200))
    files.remove_tree(f"{ROOT}/consumequeue")

    def fault(call: str, path: str) -> None:
        if call == "pwrite" and "/consumequeue/" in path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = fault
    with pytest.raises(OSError, match="Input/output"):
        reopen(files)


@pytest.mark.parametrize("lost", ["consumequeue/T/1", "consumequeue/T", "index", "checkpoint"])
@pytest.mark.parametrize("clean", [True, False])
def test_parts_deleted_by_hand_are_rebuilt(lost: str, clean: bool) -> None:
    files = MemoryFiles()
    store = filled(files)
    if clean:
        store.close()
    else:
        die(store)
    path = f"{ROOT}/{lost}"
    files.remove_tree(path) if files.is_dir(path) else files.remove(path) if files.exists(path) else None
    store, _ = reopen(files)
    assert everything(store) == contents(20)
    assert found_by_key(store, "T", "k0") == [b"body-0"]


def test_stale_units_behind_a_truncation_are_ignored() -> None:
    """RocketMQ leaves old units behind a queue's end; later records of other queues make their offsets look valid."""
    files = MemoryFiles()
    store = filled(files, 4)
    store.close()
    queue_file = f"{ROOT}/consumequeue/T/0/{0:020d}"
    stale = struct.pack(">qiq", 0, 120, 0)
    files.nodes[queue_file].data[40:60] = stale
    files.remove(f"{ROOT}/checkpoint")
    store, _ = reopen(files)
    assert everything(store) == contents(4)


def test_queues_of_a_log_that_begins_later_begin_later() -> None:
    files = MemoryFiles()
    store = filled(files, 60, segment_size_bytes=4096)
    minimum = store._log.drop_oldest()
    assert minimum == 4096
    die(store)
    files.remove_tree(f"{ROOT}/consumequeue")
    store, report = reopen(files, segment_size_bytes=4096)
    assert report.notes == []
    for queue_id in (0, 1):
        first = store.min_offset("T", queue_id)
        assert first > 0
        messages = read_all(store, "T", queue_id)
        assert [m.queue_offset for m in messages] == list(range(first, 30))
    first = store.min_offset("T", 0)
    put(store, "T", 0, b"next")
    store.close()
    store, _ = reopen(files, segment_size_bytes=4096)
    assert store.min_offset("T", 0) == first


def test_a_deleted_topic_does_not_come_back_and_starts_at_offset_0() -> None:
    files = MemoryFiles()
    store = filled(files)
    put(store, "Other", 0, b"stays")
    assert store.delete_topics("T") == 2
    assert put(store, "T", 0, b"new").queue_offset == 0
    die(store)
    store, _ = reopen(files)
    assert everything(store) == {("Other", 0): [b"stays"], ("T", 0): [b"new"]}


def test_delay_queues_are_rebuilt_with_their_due_times() -> None:
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock)
    store.open()
    due_ms = clock.now_ms() + 10_000
    level = b"DELAY\x013\x02"
    store.stage(SCHEDULE_TOPIC, 2, Draft(b"", level, 0, BORN, due_ms))
    store.commit()
    die(store)
    store, report = reopen(files, segment_size_bytes=4096)
    assert report.units_added == 1
    assert store._queues.make(SCHEDULE_TOPIC, 2).unit(0)[2] == due_ms


def test_progress_is_logged() -> None:
    files = MemoryFiles()
    die(filled(files))
    reported: list[tuple[int, int]] = []
    store = make_store(files, segment_size_bytes=1 << 16)
    store.open(progress=lambda done, total: reported.append((done, total)))
    assert reported[-1][0] == reported[-1][1] > 0


def test_a_foreign_directory_in_consumequeue_is_left_alone() -> None:
    files = MemoryFiles()
    filled(files).close()
    files.makedirs(f"{ROOT}/consumequeue/a.b/0")
    store, report = reopen(files)
    assert any("a.b" in note for note in report.notes)
    assert everything(store) == contents(20)
    assert files.is_dir(f"{ROOT}/consumequeue/a.b/0")


@pytest.mark.parametrize(
    "name", ["commitlog/00000000000000065536", "consumequeue/T/0/00000000000000000200", "index/29991231235959999"]
)
def test_an_empty_file_does_not_stop_a_start(name: str) -> None:
    files = MemoryFiles()
    die(filled(files))
    files.nodes.pop(f"{ROOT}/{name}", None)
    files.makedirs(f"{ROOT}/{name}".rpartition("/")[0])
    files.open(f"{ROOT}/{name}", create=True)
    store, _ = reopen(files)
    assert everything(store) == contents(20)
    assert found_by_key(store, "T", "k19") == [b"body-19"]
    put(store, "T", 0, b"next")
    store.close()
    assert {len(node.data) for path, node in files.nodes.items() if "/consumequeue/" in path} <= {200}
    reopen(files)


@pytest.mark.parametrize("size", [100, 120, 400, 700, 2000])
def test_queue_files_of_another_size_are_made_again(size: int) -> None:
    files = MemoryFiles()
    filled(files).close()
    store, _ = reopen(files, queue_file_size_bytes=size)
    assert everything(store) == contents(20)
    store.close()
    assert {len(node.data) for path, node in files.nodes.items() if "/consumequeue/" in path} == {size}


class CountingFile:
    """Passes everything on and counts the bytes read."""

    def __init__(self, file: File, read: dict[str, int]) -> None:
        self._file = file
        self._read = read

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def pread(self, at: int, size: int) -> bytes:
        found = self._file.pread(at, size)
        self._read[self._file.path] = self._read.get(self._file.path, 0) + len(found)
        return found

    def view(self) -> memoryview:
        raise AssertionError("recovery reads through no map: its size can't be told")


class CountingFiles:
    """A file system that counts the bytes read of each path."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files
        self.read: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> CountingFile:
        return CountingFile(self._files.open(path, create=create, size=size), self.read)

    def of_log(self) -> int:
        return sum(count for path, count in self.read.items() if "/commitlog/" in path)


@pytest.mark.parametrize("by", ["time", "bytes"])
def test_a_start_after_a_kill_reads_little_of_a_long_log(by: str) -> None:
    files, clock = MemoryFiles(), ManualClock()
    sizes: dict[str, Any] = {
        "segment_size_bytes": 8 << 20,
        "queue_file_size_bytes": 20_000,
        "checkpoint_bytes": 4 << 20,
    }
    store = make_store(files, clock, **sizes)
    store.open()
    for _ in range(140):
        store.stage_many("T", 0, [Draft(bytes(range(256)) * 4, b"", 1, BORN)] * 100)
        store.commit()
        # In 140 steps of 60 ms no checkpoint is due by its age, but the log grows by 14 MiB.
        clock.advance(60 if by == "bytes" else store.settings.checkpoint_interval_ms)
        store.tick()
        store.sync()
    for body in bodies(5):
        put(store, "T", 0, body)
    end = store.physical_max_offset
    assert end > 14 << 20
    die(store)
    counting = CountingFiles(files)
    store = make_store(counting, clock, **sizes)
    report = store.open()
    assert not report.clean
    assert report.log_end == end
    assert counting.of_log() < (3 << 20 if by == "time" else 9 << 20)
    assert store.max_offset("T", 0) == 14_005


@pytest.mark.parametrize("is_first_deleted", [False, True], ids=["whole log", "log that begins later"])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("bulk", [True, False])
def test_a_doubtful_queue_is_made_again_alone(
    is_first_deleted: bool, clean: bool, bulk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bulk:
        monkeypatch.setattr(fast_scanner, "PLAIN_BYTES_MAX", 0)
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    for number in range(90):
        put(store, "T", number % 3, b"body-%d" % number)
    store.close()
    store = make_store(files)
    store.open()
    if is_first_deleted:
        drop_oldest(store)
    late_count = 0
    if not clean:
        late_count = 3
        for queue_id in range(late_count):
            put(store, "T", queue_id, b"late")
    sound = everything(store)
    if clean:
        store.close()
    else:
        die(store)
    kept = {name: bytes(files.nodes[name].data) for name in files.nodes if "/T/0/" in name or "/T/2/" in name}
    lost = sorted(files.listdir(f"{ROOT}/consumequeue/T/1"))[-2]
    files.remove(f"{ROOT}/consumequeue/T/1/{lost}")
    store = make_store(files)
    report = store.open()
    assert everything(store) == sound
    assert any("T queue 1" in note and "it is made again" in note for note in report.notes), report.notes
    others = 0 if clean else late_count - 1
    assert report.units_added == len(sound["T", 1]) + others, "the other queues keep their units"
    if clean:
        assert all(files.nodes[name].data == data for name, data in kept.items())
    store.close()

"""UnitMender: damaged units are made again from the log, at once or in pieces, and only what the log says is served."""

from __future__ import annotations

import pytest

from pymq.clock import ManualClock
from pymq.errors import PymqError, StoreUnavailableError, UnreadableError
from pymq.model.javahash import tags_code
from pymq.model.record import decode_records
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.dispatch import unit_mender
from pymq.store.lifecycle import housekeeping, recovery
from pymq.store.store import MessageStore
from tests.store.support import ROOT, die, drop_oldest, everything, found_by_key, make_store, put, read_all

COUNT = 100
PER_FILE = 10  # units in a queue file of 200 bytes
A = frozenset((tags_code("A"),))


def queue_file(number: int, topic: str = "T") -> str:
    return f"{ROOT}/consumequeue/{topic}/0/{number * 200:020d}"


def filled(files: MemoryFiles, clock: ManualClock | None = None) -> MessageStore:
    """Return an open store whose units are all in files: a message of T, then one of another topic, and so on."""
    store = make_store(files, clock)
    store.open()
    for number in range(COUNT):
        put(store, "T", 0, b"%d" % number, tags="A" if number % 2 else "B", keys=f"k{number}")
        put(store, "Other", 0, b"%d" % number)
    store._housekeeping.write()
    return store


def overwrite(files: MemoryFiles, path: str, at: int, data: bytes) -> None:
    files.nodes[path].data[at : at + len(data)] = data


def expected() -> list[bytes]:
    return [b"%d" % number for number in range(COUNT)]


@pytest.mark.parametrize("lost", [(0,), (4,), (3, 4, 5), (9,)])
def test_emptied_files_of_a_running_store_are_made_again(lost: tuple[int, ...]) -> None:
    files = MemoryFiles()
    store = filled(files)
    for number in lost:
        overwrite(files, queue_file(number), 0, bytes(200))
    assert [message.body for message in read_all(store, "T", 0)] == expected()
    assert store.figures.mended_unit_count == len(lost) * PER_FILE
    assert all(any(files.nodes[queue_file(number)].data) for number in lost)


def test_a_long_scan_runs_in_pieces_and_readers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_mender, "SLICE_BYTES", 500)
    files = MemoryFiles()
    store = filled(files)
    store._mender.scan_now_bytes_max = 100
    overwrite(files, queue_file(4), 0, bytes(200))
    with pytest.raises(
        UnreadableError, match=r"units 40 to 49 of T queue 0 are damaged and are made again .* try again"
    ):
        store.get("T", 0, 40, 32, 1 << 20)
    assert any("units 40 to 49 of T queue 0" in problem for problem in store.problems)
    assert [m.queue_offset for m in read_all(store, "Other", 0)] == list(range(COUNT))
    turns = 0
    while store._mender.is_busy:
        with pytest.raises(UnreadableError):
            store.get("T", 0, 40, 32, 1 << 20)
        store.tick()
        turns += 1
    assert turns > 2
    assert [message.body for message in read_all(store, "T", 0)] == expected()
    assert not store.problems


def test_a_queue_that_is_deleted_ends_its_scan() -> None:
    files = MemoryFiles()
    store = filled(files)
    store._mender.scan_now_bytes_max = 0
    overwrite(files, queue_file(4), 0, bytes(200))
    with pytest.raises(UnreadableError):
        store.get("T", 0, 40, 32, 1 << 20)
    store.delete_topics("T")
    store.tick()
    assert not store._mender.is_busy


def test_units_are_compared_again_after_a_while() -> None:
    clock = ManualClock()
    files = MemoryFiles()
    store = filled(files, clock)
    assert store.get("T", 0, 0, 32, 1 << 20, A).count == 5
    files.nodes[queue_file(0)].data[20 + 19] ^= 1  # the tags code of unit 1
    clock.advance(housekeeping.DISTRUST_INTERVAL_MS + 1)
    store.tick()
    assert store.get("T", 0, 0, 32, 1 << 20, A).count == 5
    assert store.figures.mended_unit_count == 1


@pytest.mark.parametrize("part", ["unit", "file"])
def test_a_record_that_the_log_lost_stays_an_error_or_a_gap_that_is_said(
    part: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = MemoryFiles()
    store = filled(files)
    place = read_all(store, "T", 0)[45].physical_offset
    store.close()
    segment = place // 4096 * 4096
    overwrite(files, f"{ROOT}/commitlog/{segment:020d}", place - segment, bytes(40))
    files.remove(f"{ROOT}/digests/queues")
    if part == "file":
        overwrite(files, queue_file(4), 0, bytes(200))
    store = make_store(files)
    report = store.open()
    found: dict[int, bytes] = {}
    errors = 0
    offset = 0
    while offset < COUNT:
        try:
            result = store.get("T", 0, offset, 32, 1 << 20)
        except PymqError:
            errors += 1
            offset += 1
            continue
        found |= {m.queue_offset: m.body for m in decode_records(b"".join(result.chunks))}
        offset = result.next_offset
    assert found == {number: b"%d" % number for number in range(COUNT) if number != 45}
    assert errors or report.damaged or "have no record in the log" in caplog.text


@pytest.mark.parametrize("before_begin", [1, 2, 7])
def test_a_damaged_unit_of_a_deleted_message_is_not_called_lost(
    before_begin: int, caplog: pytest.LogCaptureFixture
) -> None:
    files = MemoryFiles()
    store = filled(files)
    while store.min_offset("T", 0) % PER_FILE < before_begin:
        drop_oldest(store)
    begin = store.min_offset("T", 0)
    assert begin < COUNT
    store.close()
    damaged = begin - before_begin
    overwrite(files, queue_file(damaged // PER_FILE), damaged % PER_FILE * 20 + 5, b"\x04")  # leads beyond the log
    del files.nodes[f"{ROOT}/digests/queues"]
    again = make_store(files)
    again.open()
    assert [message.body for message in read_all(again, "T", 0)] == expected()[begin:]
    assert again._mender.lost_count == 0 and "lost" not in caplog.text
    assert again._mender.mended_count == 1
    die(again)


def test_lost_index_files_of_a_long_log_are_made_again_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "INDEX_BYTES_AT_START_MAX", 100)
    files = MemoryFiles()
    filled(files).close()
    names = files.listdir(f"{ROOT}/index")
    files.remove(f"{ROOT}/index/{names[1]}")
    for stop in (die, MessageStore.close, die):
        store = make_store(files, index_batch_count=7)
        store.open()
        with pytest.raises(StoreUnavailableError, match="the key index lost files and is made again from the log"):
            store.find_by_key("T", "k3", 1)
        assert any("the key index lost files" in problem for problem in store.problems)
        put(store, "T", 0, b"new", keys="new")
        store.tick()
        stop(store)
    store = make_store(files, index_batch_count=7)
    store.open()
    while store.problems:
        store.tick()
    assert all(found_by_key(store, "T", f"k{number}") == [b"%d" % number] for number in range(COUNT))
    assert found_by_key(store, "T", "new") == [b"new"] * 3
    store.close()
    store = make_store(files)
    store.open()
    assert found_by_key(store, "T", "k3") == [b"3"]


def test_a_store_without_checksums_serves_all_the_same() -> None:
    files = MemoryFiles()
    store = make_store(files, digests_enabled=False)
    store.open()
    for number in range(COUNT):
        put(store, "T", 0, b"%d" % number)
    store.close()
    assert not files.exists(f"{ROOT}/digests")
    files.nodes[queue_file(3)].data[5] ^= 0x40
    store = make_store(files, digests_enabled=False)
    store.open()
    assert everything(store) == {("T", 0): expected()}

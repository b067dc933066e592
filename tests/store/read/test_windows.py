"""What one read fetches: enough, little more, and the same messages no matter what lies between them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.errors import CorruptRecordError, NotFoundError, UnreadableError
from pymq.model.draft import Draft
from pymq.model.javahash import tags_code
from pymq.model.layout import UNIT
from pymq.model.record import decode_records
from pymq.store.disk.fs import File, RealFiles
from pymq.store.disk.memory_fs import MemoryFile, MemoryFiles
from pymq.store.integrity.checked_read import read_record
from pymq.store.integrity.digest_file import BLOCK_SIZE_BYTES
from pymq.store.read import windows as windows_module
from pymq.store.read.windows import CHUNK_BYTES, GAP_BYTES_MAX, WindowReader
from pymq.store.store import MessageStore
from tests.store.support import ROOT, make_store, put, stage


class Counted(MemoryFiles):
    """Counts the bytes read from segments."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        file = super().open(path, create=create, size=size)
        if "/commitlog/" not in path:
            return file
        assert isinstance(file, MemoryFile)
        return cast(File, _CountedFile(self, file))


class _CountedFile:
    def __init__(self, files: Counted, file: MemoryFile) -> None:
        self._files = files
        self._file = file

    def pread(self, at: int, size: int) -> bytes:
        self._files.bytes_read += size
        return self._file.pread(at, size)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def sealed_store(queues: int, body_bytes: int, segment_size_bytes: int = 1 << 20) -> tuple[MessageStore, Counted]:
    """Return a store with a sealed segment, whose messages alternate between ``queues`` queues, and a second one."""
    files = Counted()
    store = make_store(files, segment_size_bytes=segment_size_bytes, queue_file_size_bytes=20_000)
    store.open()
    chance = random.Random(2)
    number = 0
    while len(store._log.segments) < 2:
        for _ in range(queues):
            stage(store, "T", number % queues, b"%6d" % number + chance.randbytes(body_bytes - 6))
            number += 1
        store.commit()
    store.tick()
    files.bytes_read = 0
    return store, files


def pulled(store: MessageStore, queue_id: int, offset: int) -> tuple[int, int]:
    """Return (messages, their bytes) of one pull. Checks the numbers in the bodies."""
    queues = sum(1 for _ in store.queues())
    result = store.get("T", queue_id, offset, 32, 1 << 18)
    numbers = [int(message.body[:6]) for message in decode_records(b"".join(result.chunks))]
    assert numbers == [(offset + i) * queues + queue_id for i in range(result.count)]
    return result.count, result.size_bytes


def test_messages_in_a_row_are_fetched_at_once_and_nothing_else() -> None:
    store, files = sealed_store(1, 1000)
    count, size = pulled(store, 0, 3)
    assert count == 32
    assert files.bytes_read <= size + 2 * BLOCK_SIZE_BYTES


def test_the_bytes_limit_bounds_what_is_fetched() -> None:
    store, files = sealed_store(1, 10_000)
    assert store.get("T", 0, 0, 32, 50_000).count == 4
    assert files.bytes_read <= 60_000


def test_messages_far_from_each_other_are_fetched_one_by_one() -> None:
    store, files = sealed_store(80, 1000, segment_size_bytes=3 << 20)
    count, _ = pulled(store, 5, 0)
    assert count == 32
    assert files.bytes_read <= count * 2 * BLOCK_SIZE_BYTES


def test_a_piece_that_several_queues_read_is_fetched_once() -> None:
    queues = 20
    store, files = sealed_store(queues, GAP_BYTES_MAX // 15)
    for queue_id in range(queues):
        pulled(store, queue_id, 0)
    first = files.bytes_read
    assert first < 4 * (1 << 20)
    for _ in range(3):
        for queue_id in range(queues):
            pulled(store, queue_id, 0)
    assert files.bytes_read < first + (1 << 19)


def test_a_piece_that_one_pull_mostly_reads_is_kept_at_once() -> None:
    store, files = sealed_store(8, 500)  # a pull of 32 messages reaches over more than two pieces
    pulled(store, 0, 0)
    assert len(store._windows.chunks) >= 2
    first = files.bytes_read
    for queue_id in range(1, 8):
        pulled(store, queue_id, 0)
    # The piece where the pulls end, and the blocks of each record that crosses from one kept piece into the next.
    assert files.bytes_read - first <= 2 * CHUNK_BYTES + 8 * 2 * BLOCK_SIZE_BYTES


def test_batch_queues_read_the_same_from_kept_pieces() -> None:
    queues, count, per_batch = 8, 25, 3
    store = make_store(MemoryFiles(), queue_file_size_bytes=20_000)
    store.open()
    for number in range(queues * count):
        body = b"%04d" % number * 500
        store.stage_inner("B", number % queues, Draft(body, b"", 1, b"\x7f\0\0\1\0\0\0\1"), message_count=per_batch)
    store.commit()
    for _ in range(2):  # the second time most records lie in kept pieces
        for queue_id in range(queues):
            result = store.get("B", queue_id, 0, 10 * per_batch, 1 << 20)
            numbers = [int(message.body[:4]) for message in decode_records(b"".join(result.chunks))]
            assert numbers == list(range(queue_id, 10 * queues, queues))
            assert (result.count, result.next_offset) == (10 * per_batch, 10 * per_batch)
    assert store._windows.chunks


def test_the_number_of_kept_pieces_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_module, "CHUNK_COUNT_MAX", 3)
    store, _ = sealed_store(20, GAP_BYTES_MAX // 15)
    for queue_id in range(20):
        pulled(store, queue_id, 0)
    assert len(store._windows.chunks) == len(store._windows._seen) == 3


def test_a_kept_piece_does_not_hide_damage_elsewhere() -> None:
    store, files = sealed_store(20, GAP_BYTES_MAX // 15)
    for queue_id in range(3):
        pulled(store, queue_id, 0)
    assert store._windows.chunks
    last = store._log.segments[0].end - 200
    files.nodes[f"{ROOT}/commitlog/{0:020d}"].data[last] ^= 1
    refused = 0
    for topic, queue_id in list(store.queues()):
        for offset in range(store.max_offset(topic, queue_id)):
            try:
                store.get(topic, queue_id, offset, 1, 1 << 18)
            except CorruptRecordError:
                refused += 1
    assert refused <= 1
    assert store._refusals.count == refused


@pytest.mark.parametrize("size", [90, 1 << 19, 1 << 21, 0x7FFFFFFE, -5, 0])
def test_a_unit_with_a_wrong_size_costs_little_memory_and_no_other_message(size: int) -> None:
    store, files = sealed_store(1, 1000)
    store._queues.write_tails()
    queue = store._queues.make("T", 0)
    file = store._queues._queue_files.get(f"{queue.directory}/{0:020d}")
    offset, _, tags = queue.unit(5)
    file.pwrite(5 * 20, UNIT.pack(offset, size, tags))
    assert pulled(store, 0, 0)[0] == 5
    with pytest.raises(CorruptRecordError, match="offset 5 is corrupt"):
        store.get("T", 0, 5, 32, 1 << 18)
    assert pulled(store, 0, 6)[0] == 32
    assert files.bytes_read < 1 << 21


def test_a_large_message_comes_whole() -> None:
    store = make_store(MemoryFiles(), segment_size_bytes=4 << 20)
    store.open()
    body = random.Random(1).randbytes(3 << 20)
    put(store, "T", 0, b"before")
    put(store, "T", 0, body)
    store.tick()
    for codes in (None, frozenset({tags_code("")})):
        assert decode_records(b"".join(store.get("T", 0, 1, 32, 1000, codes).chunks))[0].body == body
    offset = store._queues.make("T", 0).unit(1)[0]
    assert decode_records(store.record_at(offset))[0].body == body


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9000)), min_size=1, max_size=80),
    st.integers(1, 40),
    st.integers(1, 60_000),
    st.integers(12, 16),
    st.booleans(),
)
def test_messages_of_any_sizes_in_any_order_are_pulled_as_stored(
    messages: list[tuple[int, int]], count: int, size: int, shift: int, closes: bool
) -> None:
    """Reads twice, with odd segment sizes and small pieces, from the newest segment and from sealed ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows_module, "CHUNK_SHIFT", shift)
        patch.setattr("pymq.store.read.reading.CHUNK_SHIFT", shift)
        patch.setattr(windows_module, "CHUNK_BYTES", 1 << shift)
        files = MemoryFiles()
        sizes: dict[str, Any] = {"segment_size_bytes": 40_001, "queue_file_size_bytes": 2000}
        store = make_store(files, **sizes)
        store.open()
        wanted: dict[int, list[bytes]] = {}
        for number, (queue_id, length) in enumerate(messages):
            body = b"%d " % number + b"x" * length
            put(store, "T", queue_id, body, tags="a")
            wanted.setdefault(queue_id, []).append(body)
        if closes:
            store.close()
            store = make_store(files, **sizes)
            store.open()
        for codes in (None, frozenset({tags_code("a")}), None):
            for queue_id, bodies in wanted.items():
                found: list[bytes] = []
                while len(found) < len(bodies):
                    result = store.get("T", queue_id, len(found), count, size, codes)
                    assert result.count
                    found += [message.body for message in decode_records(b"".join(result.chunks))]
                assert found == bodies


def test_a_record_is_read_by_its_offset_to_the_very_end_of_the_log() -> None:
    store = make_store(MemoryFiles())
    store.open()
    placed = [put(store, "T", 0, b"x" * n) for n in range(60)]
    for place in placed:
        assert len(read_record(store._log, place.physical_offset)) == place.size_bytes
    for offset in (store.physical_max_offset, -1, 1 << 40):
        with pytest.raises(NotFoundError):
            read_record(store._log, offset)
    with pytest.raises(CorruptRecordError):
        read_record(store._log, store.physical_max_offset - 10)
    assert store._refusals.count == 0  # made-up offsets are no damage


def test_a_file_cut_short_under_an_open_store_is_an_error_of_its_reads(tmp_path: Path) -> None:
    """The file is on a real disk: a read through a mapping would be a SIGBUS."""
    root = str(tmp_path / "store")
    store = make_store(RealFiles(), root=root, segment_size_bytes=1 << 17, queue_file_size_bytes=20_000)
    store.open()
    for i in range(300):
        put(store, "T", 0, b"%d" % i + bytes(1000))
    first = store._log.segments[0]
    assert first.sealed
    store.record_at(0)
    with Path(first.file.path).open("r+b") as file:
        file.truncate(10_000)
    assert store.get("T", 0, 0, 1, 1000).count == 1
    with pytest.raises(UnreadableError, match="shorter than a segment"):
        store.get("T", 0, 50, 32, 1 << 18)
    assert store.get("T", 0, 200, 32, 1 << 18).count == 32
    assert isinstance(store._windows, WindowReader)

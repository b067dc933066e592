"""Cold segments read like plain ones. Compressing and thawing survive crashes and restore every byte."""

from __future__ import annotations

import errno
import io
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.clock import ManualClock
from pymq.errors import CorruptRecordError, StoreError, UnreadableError
from pymq.store.disk.fs import RealFiles
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.integrity.digest_file import UNKNOWN, split_digests
from pymq.store.lifecycle import cold_compressor as cold_module
from pymq.store.lifecycle.cold_compressor import COLD_DIRECTORY
from pymq.store.lifecycle.thaw import thaw
from pymq.store.log import cold_file as cold_file_module
from pymq.store.log.cold_file import ColdFile, ColdFiles, FrameCache, compress_frame, encode_seek_table
from pymq.store.store import MessageStore
from tests.store.integrity.test_digests import LOG, SIDE, SIZES, filled, read_one, records
from tests.store.integrity.test_scrubber import run_pass
from tests.store.support import ROOT, drop_oldest, everything, found_by_key, make_store, put, read_all

COLD = f"{ROOT}/{COLD_DIRECTORY}"
FRAME = 4096
FOREVER_MS = 1 << 60


@pytest.fixture(autouse=True)
def small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_module, "FRAME_BYTES", FRAME)
    monkeypatch.setattr(cold_module, "PIECE_BYTES", 2 * FRAME)


def compress_all(store: MessageStore, older_than_ms: int = FOREVER_MS) -> int:
    """Compress every eligible segment in the calling thread. Returns the number of pieces."""
    store._housekeeping.write()
    store.checkpoint()
    count = 0
    while (piece := store._cold_compressor.next_piece(older_than_ms)) is not None:
        piece.run()
        store._cold_compressor.finish(piece)
        count += 1
        if store._cold_compressor.problem is not None:
            break
    return count


def cold_store(files: MemoryFiles, count: int = 200) -> MessageStore:
    store = filled(files, count)
    compress_all(store)
    return store


def reopened(files: MemoryFiles) -> MessageStore:
    store = make_store(files, **SIZES)
    store.open()
    return store


def names(files: MemoryFiles, directory: str) -> list[str]:
    return files.listdir(directory)


def made(tmp: MemoryFiles, plain: bytes, frame_bytes: int, cache: FrameCache | None = None) -> ColdFile:
    """Return a compressed file of these plain bytes."""
    frames = [plain[at : at + frame_bytes] for at in range(0, len(plain), frame_bytes)]
    packed = [compress_frame(frame) for frame in frames]
    tmp.makedirs(COLD)
    file = tmp.open(f"{COLD}/x.zst", create=True)
    sizes = [(len(a), len(b)) for a, b in zip(packed, frames, strict=True)]
    file.pwrite(0, b"".join(packed) + encode_seek_table(sizes))
    return ColdFile(file, cache or FrameCache())


# -- the file -------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=3000), st.integers(1, 500), st.data())
def test_any_part_reads_as_from_the_plain_file(plain: bytes, frame_bytes: int, data: st.DataObject) -> None:
    file = made(MemoryFiles(), plain, frame_bytes, FrameCache(data.draw(st.integers(0, 4000))))
    assert file.size() == len(plain)
    for _ in range(20):
        at, size = data.draw(st.integers(0, len(plain) + 5)), data.draw(st.integers(0, len(plain) + 5))
        assert file.pread(at, size) == plain[at : at + size]
        room = bytearray(size)
        file.will_read(at, size)
        end = file.pread_into(at, memoryview(room))
        assert room[:end] == plain[at : at + size]


@pytest.mark.parametrize("at", [FRAME - 1, FRAME, FRAME + 1, 2 * FRAME - 1, 2 * FRAME])
def test_reads_at_the_edges_of_frames(at: int) -> None:
    plain = random.Random(1).randbytes(2 * FRAME + 17)
    file = made(MemoryFiles(), plain, FRAME)
    assert [file.pread(at, size) for size in (1, 2, FRAME, 3 * FRAME)] == [
        plain[at : at + size] for size in (1, 2, FRAME, 3 * FRAME)
    ]
    assert file.next_data(at) == at
    assert file.next_data(file.size()) is None


@pytest.mark.parametrize("damage", [lambda raw: raw[:-1], lambda raw: raw[:5], lambda raw: b"", lambda raw: raw + b"x"])
def test_a_file_without_its_seek_table_is_refused(damage: Callable[[bytes], bytes]) -> None:
    files = MemoryFiles()
    made(files, b"a" * 9000, FRAME)
    files.nodes[f"{COLD}/x.zst"].data = bytearray(damage(bytes(files.nodes[f"{COLD}/x.zst"].data)))
    with pytest.raises(StoreError, match="seek table"):
        ColdFile(files.open(f"{COLD}/x.zst"), FrameCache())


def test_no_flipped_bit_of_a_compressed_file_gives_other_bytes() -> None:
    files = MemoryFiles()
    plain = random.Random(3).randbytes(300) * 40
    made(files, plain, FRAME)
    raw = files.nodes[f"{COLD}/x.zst"].data
    refused = 0
    for bit in range(8 * len(raw)):
        raw[bit // 8] ^= 1 << bit % 8
        try:
            read = ColdFile(files.open(f"{COLD}/x.zst"), FrameCache()).pread(0, len(plain))
            assert read == plain
        except (StoreError, OSError):
            refused += 1
        raw[bit // 8] ^= 1 << bit % 8
    assert refused > 7 * len(raw)


def test_a_compressed_file_can_not_be_changed() -> None:
    file = made(MemoryFiles(), b"abc", FRAME)
    changes: list[Callable[[], object]] = [
        lambda: file.pwrite(0, b"x"),
        lambda: file.pwritev(0, [b"x"]),
        lambda: file.truncate(1),
        lambda: file.allocate(0, 1),
        lambda: file.writable_view(),
    ]
    for change in changes:
        with pytest.raises(OSError, match="thaw") as caught:
            change()
        assert caught.value.errno == errno.EROFS
    with pytest.raises(OSError, match="mapped"):
        file.view()
    assert file.pread(0, 9) == b"abc"


def test_the_cache_is_bounded_in_bytes() -> None:
    cache = FrameCache(1000)
    file = made(MemoryFiles(), bytes(10_000), 300, cache)
    file.pread(0, 10_000)
    assert cache.size_bytes == 1000
    file.pread(0, 1)
    assert cache.size_bytes == 1000
    cache.forget(file.path)
    assert cache.size_bytes == 0


def test_golden_bytes_of_a_seek_table() -> None:
    assert encode_seek_table([(20, 4096), (7, 100)]).hex() == (
        "5e2a4d18" "19000000" "14000000" "00100000" "07000000" "64000000" "02000000" "00" "b1ea928f"
    )  # fmt: skip


def test_zstd_itself_restores_the_plain_file(tmp_path: Path) -> None:
    files = MemoryFiles()
    store = filled(files, 200)
    plain = bytes(files.nodes[f"{LOG}/{0:020d}"].data)
    compress_all(store)
    raw = bytes(files.nodes[f"{COLD}/{0:020d}.zst"].data)
    assert zstandard.ZstdDecompressor().stream_reader(io.BytesIO(raw), read_across_frames=True).read() == plain
    program = shutil.which("zstd")
    if program is not None:
        (tmp_path / "s.zst").write_bytes(raw)
        assert subprocess.run([program, "-dc", tmp_path / "s.zst"], capture_output=True, check=True).stdout == plain


# -- serving --------------------------------------------------------------------------------------------------------


def test_everything_is_served_as_before() -> None:
    files = MemoryFiles()
    store = filled(files, 200)
    before, keys = everything(store), [found_by_key(store, "A", f"k{i}") for i in range(200)]
    ids = [bytes(store.record_at(row[3])) for row in records(store)]
    sealed = [segment.start for segment in store._log.segments[:-1]]
    compress_all(store)
    assert names(files, LOG) == [f"{store._log.segments[-1].start:020d}"]
    assert names(files, COLD) == [f"{start:020d}.zst" for start in sealed]
    for _ in range(2):
        assert everything(store) == before
        assert [found_by_key(store, "A", f"k{i}") for i in range(200)] == keys
        assert [bytes(store.record_at(row[3])) for row in records(store)] == ids
        assert store.offset_by_time("A", 0, 0) == 0
        assert run_pass(store).found == {}
        put(store, "A", 0, b"goes on")
        before["A", 0].append(b"goes on")
        ids.append(bytes(store.record_at(records(store)[-1][3])))
        store.close()
        store = reopened(files)
    assert store.problems == []


def test_queues_index_and_digests_are_rebuilt_from_cold_segments() -> None:
    files = MemoryFiles()
    store = cold_store(files)
    before, keys = everything(store), [found_by_key(store, "A", f"k{i}") for i in range(200)]
    store.close()
    for name in ("consumequeue", "index", "digests"):
        files.remove_tree(f"{ROOT}/{name}")
    files.remove(f"{ROOT}/checkpoint")
    store = reopened(files)
    assert everything(store) == before
    assert [found_by_key(store, "A", f"k{i}") for i in range(200)] == keys
    store.tick()
    assert run_pass(store).found == {}
    assert UNKNOWN not in split_digests(store._digests.table.get(0, 0, 8))


def test_only_what_is_old_enough_and_on_the_disk_is_compressed() -> None:
    clock = ManualClock(1_000_000)
    files = MemoryFiles(now_ms=clock.now_ms)
    store = make_store(files, clock, **SIZES)
    store.open()
    for _ in range(200):
        put(store, "A", 0, b"x" * 500)
        clock.advance(1000)
    starts = [segment.start for segment in store._log.segments]
    first_ms = files.modified_ms(f"{LOG}/{0:020d}")
    assert store._cold_compressor.next_piece(FOREVER_MS) is None  # there is no checkpoint yet
    store._housekeeping.write()
    store.checkpoint()
    assert store._cold_compressor.next_piece(first_ms) is None
    while (piece := store._cold_compressor.next_piece(first_ms + 1)) is not None:
        piece.run()
        store._cold_compressor.finish(piece)
    assert names(files, COLD) == [f"{0:020d}.zst"]
    assert files.modified_ms(f"{COLD}/{0:020d}.zst") == first_ms
    assert store._log.modified_ms(store._log.segments[0]) == first_ms
    compress_all(store)
    assert len(names(files, COLD)) == len(starts) - 1


def test_retention_deletes_cold_segments_and_counts_their_disk_space() -> None:
    files = MemoryFiles()
    store = cold_store(files)
    newest = store._log.segments[-1]
    packed = sum(len(node.data) for path, node in files.nodes.items() if path.startswith(COLD))
    assert store._expiry.log_bytes() == packed + store.physical_max_offset - newest.start
    first = store._log.segments[0]
    assert store._expiry.segments(1)[0].size_bytes == len(files.nodes[f"{COLD}/{0:020d}.zst"].data)
    drop_oldest(store)
    assert not files.exists(f"{COLD}/{0:020d}.zst")
    assert store.physical_min_offset == first.end
    assert everything(store)
    store.close()
    assert everything(reopened(files))


def test_deleting_a_segment_during_its_compression_leaves_nothing() -> None:
    files = MemoryFiles()
    store = filled(files, 200)
    store._housekeeping.write()
    store.checkpoint()
    while (piece := store._cold_compressor.next_piece(FOREVER_MS)) is not None:
        piece.run()
        if getattr(piece, "is_done", False):
            break
        store._cold_compressor.finish(piece)
    assert piece is not None
    drop_oldest(store)
    store._cold_compressor.finish(piece)
    assert names(files, COLD) == []
    assert everything(store)


def test_a_stop_in_the_middle_leaves_nothing_half_done() -> None:
    files = MemoryFiles()
    store = filled(files, 200)
    before = everything(store)
    store._housekeeping.write()
    store.checkpoint()
    for _ in range(3):
        piece = store._cold_compressor.next_piece(FOREVER_MS)
        assert piece is not None
        piece.run()
        store._cold_compressor.finish(piece)
    store.close()
    assert names(files, COLD) == []
    assert everything(reopened(files)) == before


def test_damage_in_a_frame_costs_that_frame() -> None:
    files = MemoryFiles()
    store = cold_store(files)
    rows = [row for row in records(store) if row[3] + row[4] <= store._log.segments[0].end]
    good = {row: read_one(store, row) for row in rows}
    store.close()
    raw = files.nodes[f"{COLD}/{0:020d}.zst"].data
    raw[6000] ^= 8
    store = reopened(files)
    refused = []
    for row in rows:
        try:
            assert read_one(store, row) == good[row]
        except UnreadableError as error:
            assert "compressed segment is damaged" in str(error)
            refused.append(row)
    assert 0 < len(refused) < len(rows) / 2
    assert refused[-1][3] - refused[0][3] < 2 * FRAME
    assert run_pass(store).found


def test_earlier_damage_is_compressed_too_and_stays_known() -> None:
    files = MemoryFiles()
    store = filled(files, 200)
    row = records(store)[5]
    files.nodes[f"{LOG}/{0:020d}"].data[row[3] + 60] ^= 1
    compress_all(store)
    with pytest.raises(CorruptRecordError):
        read_one(store, row)


# -- failures and crashes -------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process ends here."""


def crash_at(files: MemoryFiles, number: int) -> list[str]:
    """Let the ``number``-th call from now on crash the process. Returns the list of calls."""
    calls: list[str] = []

    def fault(call: str, path: str) -> None:
        calls.append(f"{call} {path}")
        if len(calls) == number:
            raise Crash

    files.fault = fault
    return calls


def after(files: MemoryFiles, power: bool, seed: int) -> MemoryFiles:
    files.fault = None
    if not power:
        return files.after_kill()
    chance = random.Random(seed)
    return files.after_power_loss(lambda path, page: chance.random() < 0.5, lambda path: chance.random() < 0.5)


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_call_of_compressing_loses_nothing(power: bool) -> None:
    crashed = 0
    for number in range(1, 10_000):
        files = MemoryFiles()
        store = filled(files, 150)
        store.close()
        store = reopened(files)
        wanted = everything(store)
        crash_at(files, number)
        try:
            compress_all(store)
            break
        except Crash:
            crashed += 1
        found = after(files, power, number)
        store = reopened(found)
        assert everything(store) == wanted
        assert not [name for name in names(found, COLD) if name.endswith(".tmp")]
        assert compress_all(store) or not names(found, LOG)[1:]
        assert everything(store) == wanted
        assert len(names(found, LOG)) == 1
    assert crashed > 20


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_call_of_thawing_loses_nothing(power: bool) -> None:
    crashed = 0
    for number in range(1, 10_000):
        files = MemoryFiles()
        store = cold_store(files, 120)
        wanted = everything(store)
        store.close()
        crash_at(files, number)
        try:
            thaw(files, ROOT)
            break
        except Crash:
            crashed += 1
        found = after(files, power, number)
        store = reopened(found)
        assert everything(store) == wanted
        store.close()
        thaw(found, ROOT)
        assert names(found, COLD) == []
        assert everything(reopened(found)) == wanted
    assert crashed > 20


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_any_call_of_compressing_may_fail_and_the_next_try_succeeds(code: int) -> None:
    failed = 0
    for number in range(1, 10_000):
        files = MemoryFiles()
        store = filled(files, 150)
        store.close()
        store = reopened(files)
        wanted = everything(store)
        calls: list[Any] = []

        def fault(call: str, path: str, number: int = number, calls: list[str] = calls) -> None:
            if COLD in path or LOG in path:
                calls.append(call)
                if len(calls) == number:
                    raise OSError(code, "out of order", path)

        store.checkpoint()
        files.fault = fault
        compress_all(store)
        files.fault = None
        if len(calls) < number:
            break
        failed += 1
        assert store._cold_compressor.problem is not None
        assert everything(store) == wanted
        compress_all(store)
        compress_all(store)
        assert everything(store) == wanted
        store.close()
        assert everything(reopened(files)) == wanted
    assert failed > 15


# -- thawing --------------------------------------------------------------------------------------------------------


def test_thaw_restores_every_segment_byte_for_byte_with_its_time() -> None:
    clock = ManualClock(5_000_000)
    files = MemoryFiles(now_ms=clock.now_ms)
    store = filled(files, 200)
    plain = {path: bytes(node.data) for path, node in files.nodes.items() if path.startswith(LOG)}
    times = {path: node.modified_ms for path, node in files.nodes.items() if path.startswith(LOG)}
    clock.advance(1_000_000)
    compress_all(store)
    store.close()
    reported: list[tuple[int, int]] = []
    report = thaw(files, ROOT, progress=lambda done, total: reported.append((done, total)))
    assert {path: bytes(node.data) for path, node in files.nodes.items() if path.startswith(LOG)} == plain
    assert {path: node.modified_ms for path, node in files.nodes.items() if path.startswith(LOG)} == times
    assert (len(report.segments), report.bytes) == (len(plain) - 1, (len(plain) - 1) * SIZES["segment_size_bytes"])
    assert reported == [(n, len(plain) - 1) for n in range(1, len(plain))]
    assert thaw(files, ROOT).segments == []
    assert everything(reopened(files))


def test_thaw_refuses_a_directory_in_use_and_a_damaged_segment() -> None:
    files = MemoryFiles()
    store = cold_store(files)
    with pytest.raises(StoreError, match="another broker"):
        thaw(files, ROOT)
    store.close()
    raw = files.nodes[f"{COLD}/{0:020d}.zst"].data
    raw[600] ^= 1
    with pytest.raises(OSError, match="damaged"):
        thaw(files, ROOT)
    assert files.exists(f"{COLD}/{0:020d}.zst")


def test_an_unfinished_thaw_is_not_a_segment() -> None:
    files = MemoryFiles()
    store = cold_store(files)
    wanted = everything(store)
    store.close()
    files.open(f"{LOG}/{0:020d}.tmp", create=True, size=100)
    files.open(f"{COLD}/{0:020d}.zst.tmp", create=True, size=100)
    store = reopened(files)
    assert everything(store) == wanted
    assert [name for name in (*names(files, LOG), *names(files, COLD)) if name.endswith("tmp")] == []


def test_where_both_forms_exist_the_plain_one_counts() -> None:
    files = MemoryFiles()
    store = filled(files, 200)
    plain = bytes(files.nodes[f"{LOG}/{0:020d}"].data)
    compress_all(store)
    wanted = everything(store)
    store.close()
    files.open(f"{LOG}/{0:020d}", create=True).pwrite(0, plain)
    store = reopened(files)
    assert everything(store) == wanted
    assert not files.exists(f"{COLD}/{0:020d}.zst")


def test_a_log_that_must_be_truncated_inside_a_cold_segment_does_not_start() -> None:
    files = MemoryFiles()
    cold_store(files).close()
    for name in names(files, LOG):
        files.remove(f"{LOG}/{name}")
    newest = ColdFiles(files, COLD).starts()[-1]
    cold = ColdFiles(files, COLD).open(newest)
    plain = bytearray(cold.pread(0, cold.size()))
    cold.close()
    plain[9000:] = bytes(len(plain) - 9000)
    rows = [compress_frame(plain[at : at + FRAME]) for at in range(0, len(plain), FRAME)]
    node = files.nodes[f"{COLD}/{newest:020d}.zst"]
    node.data = bytearray(b"".join(rows) + encode_seek_table([(len(row), FRAME) for row in rows]))
    files.remove(f"{ROOT}/checkpoint")
    files.remove_tree(SIDE)
    files.open(f"{ROOT}/abort", create=True)
    with pytest.raises(StoreError, match="run `pymq store thaw` first"):
        reopened(files)


def test_a_log_without_plain_segments_continues_behind_the_cold_ones() -> None:
    files = MemoryFiles()
    cold_store(files).close()
    files.remove(f"{LOG}/{names(files, LOG)[-1]}")
    with pytest.raises(StoreError, match="segment 00000000000000032768 is missing"):
        reopened(files)
    files.remove(f"{ROOT}/checkpoint")
    files.remove_tree(f"{ROOT}/consumequeue")
    store = reopened(files)
    put(store, "A", 0, b"behind")
    assert store._log.segments[-1].sealed is False
    assert read_all(store, "A", 0)[-1].body == b"behind"


def test_on_a_real_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_module, "FRAME_BYTES", cold_file_module.FRAME_BYTES)
    files, root = RealFiles(), str(tmp_path / "store")
    store = make_store(files, root=root, segment_size_bytes=1 << 20, queue_file_size_bytes=20_000)
    store.open()
    for i in range(3000):
        put(store, "A", i % 3, b"body %d " % i * 90)
    store._housekeeping.write()
    store.checkpoint()
    wanted = everything(store)
    plain = (tmp_path / "store/commitlog" / f"{0:020d}").read_bytes()
    modified = (tmp_path / "store/commitlog" / f"{0:020d}").stat().st_mtime_ns // 1_000_000
    compress_all(store)
    assert store._cold_compressor.compressed_count == 2
    assert everything(store) == wanted
    store.close()
    store = make_store(files, root=root, segment_size_bytes=1 << 20, queue_file_size_bytes=20_000)
    store.open()
    assert everything(store) == wanted
    store.close()
    assert thaw(files, root).bytes == 2 << 20
    back = tmp_path / "store/commitlog" / f"{0:020d}"
    assert back.read_bytes() == plain
    assert back.stat().st_mtime_ns // 1_000_000 == modified

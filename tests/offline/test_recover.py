"""Rebuilding a directory from another broker: every kind of loss, every refusal, and a kill at any point."""

from __future__ import annotations

import copy
import json

import pytest

from pymq.errors import StoreError, UnreachableError, UsageError
from pymq.offline import log_files, recover_log
from pymq.offline.log_files import SegmentFile
from pymq.offline.recover import Recovery
from pymq.offline.recover_log import CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, REPLACED_DIRECTORY, chunk_bytes_for
from pymq.store.disk.fs import File
from pymq.store.disk.memory_fs import MemoryFile, MemoryFiles
from pymq.store.disk.rebuild_mark import unfinished_path
from tests.offline.recovering import (
    SEGMENT_BYTES,
    TABLES,
    Source,
    contents,
    fill,
    flip,
    no_stage,
    opened,
    pair,
    recover,
    segment_path,
    write,
)
from tests.store.lifecycle.test_cold_compressor import compress_all
from tests.store.support import ROOT, everything, make_store

EPOCH_HISTORY = b'{"epochs":[{"epoch":1,"start":0,"epochId":"aa"}]}'


def test_a_complete_directory_is_left_unchanged() -> None:
    source, files = pair()
    outcome = recover(files, source)
    assert outcome.is_sound and outcome.counts.equal == outcome.counts.total > 0
    assert (source.read_bytes, outcome.fetched_bytes, outcome.dropped, outcome.tables) == (0, 0, [], [])
    assert contents(files) == everything(source.store)


@pytest.mark.parametrize("number", [0, 2, 4])
def test_a_lost_segment_is_fetched_and_nothing_else(number: int) -> None:
    source, files = pair()
    files.remove(segment_path(number))
    outcome = recover(files, source)
    assert outcome.is_sound and outcome.counts.missing > 0 and outcome.counts.differing == 0
    assert source.read_bytes == outcome.fetched_bytes <= SEGMENT_BYTES
    assert contents(files) == everything(source.store)
    assert not files.exists(unfinished_path(ROOT))


def test_damaged_bytes_are_replaced_and_set_aside() -> None:
    source, files = pair()
    before = files.read_bytes(segment_path(1))
    flip(files, segment_path(1), 5000)
    damaged = files.read_bytes(segment_path(1))
    outcome = recover(files, source)
    assert outcome.is_sound and outcome.counts.differing == 1
    (path,) = outcome.replaced
    at = int(path.rpartition("/")[2].split("-")[0]) - SEGMENT_BYTES
    assert files.read_bytes(path) == damaged[at : at + outcome.chunk_bytes]
    assert files.read_bytes(segment_path(1)) == before
    assert contents(files) == everything(source.store)


def test_a_short_file_is_completed() -> None:
    source, files = pair()
    file = files.open(segment_path(1))
    file.truncate(7000)
    file.close()
    assert recover(files, source).is_sound
    assert contents(files) == everything(source.store)


@pytest.mark.parametrize("name", ["consumequeue", "index", "digests"])
def test_derived_files_are_rebuilt_by_the_next_start(name: str) -> None:
    source, files = pair()
    files.remove_tree(f"{ROOT}/{name}")
    outcome = recover(files, source)
    assert outcome.is_sound and source.read_bytes == 0
    assert contents(files) == everything(source.store)


def test_a_damaged_queue_is_dropped() -> None:
    source, files = pair()
    for at in range(25, 100, 20):
        flip(files, f"{ROOT}/consumequeue/orders/1/{0:020d}", at)
    outcome = recover(files, source)
    assert outcome.is_sound and "consumequeue" in outcome.dropped
    assert contents(files) == everything(source.store)


def test_an_empty_directory_is_rebuilt() -> None:
    source, _ = pair()
    files = MemoryFiles()
    outcome = recover(files, source)
    assert outcome.is_sound and outcome.counts.missing == outcome.counts.total
    assert sorted(outcome.tables) == sorted(TABLES)
    assert contents(files) == everything(source.store)
    assert "billing" in json.loads(files.read_bytes(f"{ROOT}/config/subscriptionGroup.json"))["subscriptionGroupTable"]


def test_a_longer_source_log_is_fetched() -> None:
    source, files = pair(60)
    fill(source.store, 60, 60)
    outcome = recover(files, source)
    assert outcome.is_sound and outcome.beyond_bytes == 0
    assert contents(files) == everything(source.store)


@pytest.mark.parametrize("is_master", [False, True])
def test_a_directory_rebuilt_from_a_master_is_a_slave(is_master: bool) -> None:
    source, files = pair(60)
    source.is_master = is_master
    flip(files, segment_path(0), 3000)
    notes = recover(files, source).notes
    assert any("10.0.0.2:10911 is the master of broker-a: start this broker as its slave" in one for one in notes) == (
        is_master
    )


@pytest.mark.parametrize("lost", [False, True])
def test_log_beyond_the_sources_end_is_kept(lost: bool) -> None:
    source, files = pair(60)
    local = opened(files)
    fill(local, 60, 60)
    expected = everything(local)
    end = local.physical_max_offset
    local.close()
    if lost:
        flip(files, segment_path(0), 3000)
    outcome = recover(files, source)
    assert outcome.is_sound and outcome.beyond_bytes == end - source.store.physical_max_offset
    assert contents(files) == expected
    assert any("beyond the source's end" in note for note in outcome.notes)


def test_damage_beyond_the_sources_end_stays_and_is_reported() -> None:
    source, files = pair(60)
    local = opened(files)
    fill(local, 60, 60)
    local.close()
    flip(files, segment_path(4), 3000)
    outcome = recover(files, source)
    assert not outcome.is_sound and outcome.left_damage


def test_a_hole_the_source_cannot_fill_is_refused() -> None:
    source, files = pair(30)
    local = opened(files)
    fill(local, 90, 30)
    local.close()
    files.remove(segment_path(3))
    with pytest.raises(UsageError, match="hole from"):
        recover(files, source)
    assert not files.exists(unfinished_path(ROOT))


@pytest.mark.parametrize("count", [60, 120, 240])
def test_another_log_is_refused_and_replaced_when_forced(count: int) -> None:
    source, _ = pair()
    files = MemoryFiles()
    other = opened(files)
    fill(other, count, 5000)
    end = other.physical_max_offset
    other.close()
    before = b"".join(files.read_bytes(segment_path(number)) for number in range(-(-end // SEGMENT_BYTES)))
    with pytest.raises(UsageError, match="another log"):
        recover(files, source)
    assert not files.exists(f"{ROOT}/{REPLACED_DIRECTORY}")
    outcome = recover(files, source, force=True)
    assert outcome.is_sound and outcome.beyond_bytes == 0
    for path in outcome.replaced:
        start, stop = map(int, path.rpartition("/")[2].split("-"))
        assert files.read_bytes(path) == before[start:stop].ljust(stop - start, b"\0")
    assert sum(len(files.read_bytes(path).rstrip(b"\0")) for path in outcome.replaced) >= end - SEGMENT_BYTES
    assert contents(files) == everything(source.store)


def test_the_kept_part_of_another_log_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment may have a GiB, too much for one read."""
    source, _ = pair()
    files = MemoryFiles()
    other = opened(files)
    fill(other, 240, 5000)
    end = other.physical_max_offset
    other.close()
    assert end > source.store.physical_max_offset + 2 * SEGMENT_BYTES
    sizes = []

    class Noting(SegmentFile):
        def read(self, at: int, size: int) -> bytes:
            sizes.append(size)
            return super().read(at, size)

    monkeypatch.setattr(recover_log, "CHUNK_BYTES_MAX", CHUNK_BYTES_MIN)
    monkeypatch.setattr(log_files, "_SEARCH_BYTES", CHUNK_BYTES_MIN)
    monkeypatch.setattr(recover_log, "SegmentFile", Noting)
    last = segment_path(end // SEGMENT_BYTES)
    before = files.read_bytes(last)
    outcome = recover(files, source, force=True)
    assert outcome.is_sound and max(sizes) <= CHUNK_BYTES_MIN
    (kept,) = [
        path for path in outcome.replaced if path.endswith(f"-{(end // SEGMENT_BYTES + 1) * SEGMENT_BYTES:020d}")
    ]
    assert files.read_bytes(kept) == before


def test_a_source_that_goes_away_leaves_no_file_open(monkeypatch: pytest.MonkeyPatch) -> None:
    source, files = pair()
    opened_paths: list[str] = []
    closed_paths: list[str] = []
    open_file, close_file = MemoryFiles.open, MemoryFile.close

    def noting_open(files: MemoryFiles, path: str, *, create: bool = False, size: int | None = None) -> File:
        opened_paths.append(path)
        return open_file(files, path, create=create, size=size)

    def noting_close(file: MemoryFile) -> None:
        closed_paths.append(file.path)
        close_file(file)

    flip(files, segment_path(1), 300)
    source.failing_reads = range(1, 2)
    monkeypatch.setattr(MemoryFiles, "open", noting_open)
    monkeypatch.setattr(MemoryFile, "close", noting_close)
    with pytest.raises(UnreachableError):
        recover(files, source)
    assert segment_path(1) in opened_paths and sorted(opened_paths) == sorted(closed_paths)


def test_an_interrupted_forced_replacement_continues_as_forced() -> None:
    source, _ = pair()
    files = MemoryFiles()
    other = opened(files)
    fill(other, 240, 5000)
    other.close()
    source.failing_reads = range(15, 16)
    with pytest.raises(UnreachableError):
        recover(files, source, force=True)
    outcome = recover(files, source)
    assert outcome.is_sound and 0 < outcome.counts.differing < outcome.counts.equal
    assert contents(files) == everything(source.store)


def test_differing_compressed_segments_are_decompressed() -> None:
    source, files = pair()
    local = opened(files)
    compress_all(local)
    local.close()
    assert not files.exists(segment_path(1))
    assert recover(files, source).counts.equal == recover(files, source).counts.total
    cold = f"{ROOT}/coldlog/{SEGMENT_BYTES:020d}.zst"
    flip(files, cold, 200)
    outcome = recover(files, source)
    assert outcome.is_sound and outcome.fetched_bytes > 0
    assert not files.exists(cold) and files.exists(f"{ROOT}/coldlog/{0:020d}.zst")
    assert contents(files) == everything(source.store)


def test_a_directory_of_another_broker_is_refused() -> None:
    source, files = pair()
    source.names = ("broker-b", "west")
    with pytest.raises(UsageError, match="broker-b of cluster west"):
        recover(files, source)
    recover(files, source, force=True)


def test_other_segment_sizes_are_refused() -> None:
    source, _ = pair()
    files = MemoryFiles()
    other = make_store(files, segment_size_bytes=SEGMENT_BYTES // 2)
    other.open()
    fill(other, 60)
    other.close()
    with pytest.raises(UsageError, match=f"{SEGMENT_BYTES // 2} bytes"):
        recover(files, source, force=True)


def test_an_empty_source_is_refused() -> None:
    _, files = pair()
    empty = make_store(MemoryFiles(), segment_size_bytes=SEGMENT_BYTES)
    empty.open()
    with pytest.raises(UsageError, match="empty"):
        recover(files, Source(empty))


def test_a_directory_in_use_is_refused() -> None:
    source, files = pair()
    store = opened(files)
    with pytest.raises(StoreError, match="locked"):
        recover(files, source)
    store.close()


def test_bytes_with_a_wrong_digest_are_refused_and_the_next_try_resumes() -> None:
    source, files = pair()
    files.remove(segment_path(2))
    source.spoil = True
    with pytest.raises(StoreError, match="own digest"):
        recover(files, source)
    with pytest.raises(StoreError, match="half rebuilt"):
        opened(files)
    source.spoil = False
    assert recover(files, source).is_sound
    assert contents(files) == everything(source.store)


def test_damage_in_the_source_is_reported_and_replaces_no_good_bytes() -> None:
    source, files = pair()
    expected = everything(source.store)
    segment = source.store._log.segments[1]
    segment.file.pwrite(5000, bytes([segment.file.pread(5000, 1)[0] ^ 1]))
    outcome = recover(files, source)
    assert outcome.counts.unknown == 1 and not outcome.is_sound and outcome.damaged == []
    assert contents(files) == expected
    files.remove(segment_path(1))
    outcome = recover(files, source)
    (damaged,) = outcome.damaged
    assert damaged[0] <= SEGMENT_BYTES + 5000 < damaged[1] and not outcome.is_sound


def test_a_comparison_changes_nothing() -> None:
    source, files = pair()
    files.remove(segment_path(2))
    flip(files, segment_path(0), 2000)
    before = files.snapshot().image()
    outcome = Recovery(files, ROOT, source, no_stage).compare()
    assert not outcome.is_sound and outcome.counts.differing == 1 and outcome.counts.missing == 4
    assert files.snapshot().image() == before


def test_readable_tables_stay_and_damaged_ones_are_set_aside() -> None:
    source, files = pair()
    newer = b'{"offsetTable":{"orders@billing":{"0":5}}}'
    write(files, f"{ROOT}/config/consumerOffset.json", newer)
    write(files, f"{ROOT}/config/subscriptionGroup.json", b"{")
    outcome = recover(files, source)
    assert outcome.tables == ["subscriptionGroup.json"]
    assert files.read_bytes(f"{ROOT}/config/consumerOffset.json") == newer
    assert files.read_bytes(f"{ROOT}/config/subscriptionGroup.json.bad") == b"{"


def test_deleted_topics_stay_deleted() -> None:
    source, _ = pair(30)
    source.store.delete_topics("orders")
    fill(source.store, 12, 1000)
    files = MemoryFiles()
    assert recover(files, source).is_sound
    found = contents(files)
    assert found == everything(source.store) and sum(map(len, found.values())) == 12


def test_the_epoch_history_comes_from_the_source_unless_it_is_shorter() -> None:
    source, files = pair(60)
    source.given_tables["epochHistory.json"] = EPOCH_HISTORY
    path = f"{ROOT}/config/epochHistory.json"
    recover(files, source)
    assert json.loads(files.read_bytes(path))["epochs"] == json.loads(EPOCH_HISTORY)["epochs"]
    mine = b'{"epochs":[{"epoch":1,"start":0,"epochId":"bb"}],"endedAt":7}'
    write(files, path, mine)
    local = opened(files)
    fill(local, 10, 60)
    local.close()
    recover(files, source)
    assert files.read_bytes(path) == mine
    flip(files, segment_path(0), 3000)
    outcome = recover(files, source)
    assert not files.exists(path) and any("epochHistory.json" in note for note in outcome.notes)


@pytest.mark.parametrize(
    ("log_bytes", "expected"),
    [(0, CHUNK_BYTES_MIN), (1 << 20, CHUNK_BYTES_MIN), (256 << 20, CHUNK_BYTES_MAX), (255 << 20, CHUNK_BYTES_MAX // 2)],
)
def test_small_logs_have_small_chunks(log_bytes: int, expected: int) -> None:
    assert chunk_bytes_for(log_bytes) == expected


class Killed(Exception):
    """Raised where the process is killed."""


@pytest.mark.slow
@pytest.mark.parametrize("power_loss", [False, True], ids=["kill", "power loss"])
def test_a_run_killed_at_any_call_is_finished_by_the_next(power_loss: bool) -> None:
    source, whole = pair(60)
    expected = everything(source.store)
    whole.remove(segment_path(1))
    whole.sync_dir(f"{ROOT}/commitlog")
    flip(whole, segment_path(0), 3000)
    flip(whole, segment_path(2), 100)
    whole.remove_tree(f"{ROOT}/consumequeue/orders/1")
    whole.remove(f"{ROOT}/config/subscriptionGroup.json")
    number, resumed = 0, 0
    while True:
        files = copy.deepcopy(whole)
        left = number

        def fault(call: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        files.fault = fault
        try:
            recover(files, source)
        except Killed:
            pass
        else:
            break
        files.fault = None
        files = files.after_power_loss(lambda *_: False, lambda _: False) if power_loss else files.after_kill()
        _check_not_served(files, expected)
        source.read_bytes = 0
        outcome = recover(files, source)
        assert outcome.is_sound
        resumed += source.read_bytes < 2 * SEGMENT_BYTES
        assert contents(files) == expected
        number += 1
    assert number > 40 and resumed > 0


def _check_not_served(files: MemoryFiles, expected: dict[tuple[str, int], list[bytes]]) -> None:
    """Check that no store opens a half rebuilt directory; before the mark it is as damaged as it was."""
    if files.exists(unfinished_path(ROOT)):
        with pytest.raises(StoreError, match="half rebuilt"):
            opened(copy.deepcopy(files))


@pytest.mark.parametrize("epoch", [b"-1", b"1001", b"1152921504606846976", b'"x"'])
def test_an_epoch_history_that_can_t_be_true_is_not_taken(epoch: bytes) -> None:
    source, files = pair(60)
    source.given_tables["epochHistory.json"] = b'{"epochs":[{"epoch":%s,"start":0,"epochId":"aa"}]}' % epoch
    with pytest.raises(StoreError, match="can't be true"):
        recover(files, source)

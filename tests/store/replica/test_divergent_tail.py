"""A log is truncated where it diverges from its master's: the truncated bytes are kept, the rest is served."""

from __future__ import annotations

import errno
import json
import os

import pytest

from pymq.clock import ManualClock
from pymq.errors import StoreError
from pymq.store.disk.disk_snapshot import Image
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.replica.divergent_tail import TruncatedTail, list_truncations, truncate_log
from pymq.store.scan import fast_scanner
from pymq.store.settings import StoreSettings
from pymq.store.store import MessageStore, Placed
from tests.crash.losses import DROP_ALL, KEEP_ALL, KEEP_PAGES, Loss
from tests.store.support import ROOT, SMALL, bodies, drop_oldest, everything, make_store, put

SETTINGS = StoreSettings(**SMALL)


class _Killed(Exception):
    """The process died in a call."""


def filled(files: MemoryFiles, count: int = 80) -> tuple[list[Placed], int]:
    """Return a stopped store of two queues, as the places of its messages and the log's end."""
    store = opened(files)
    places = [put(store, "T", n % 2, body, keys=f"k{n}") for n, body in enumerate(bodies(count))]
    store.close()
    return places, store.physical_max_offset


def opened(files: MemoryFiles) -> MessageStore:
    store = make_store(files)
    store.open()
    return store


def first(count: int) -> dict[tuple[str, int], list[bytes]]:
    return {("T", q): [body for n, body in enumerate(bodies(count)) if n % 2 == q] for q in (0, 1)}


def truncate(files: MemoryFiles, end: int) -> TruncatedTail:
    return truncate_log(files, ROOT, SETTINGS, end, ManualClock(), why="a test")


def test_a_divergent_tail_is_kept_and_the_rest_serves() -> None:
    files = MemoryFiles()
    places, end = filled(files)
    place = places[50].physical_offset
    store = opened(files)
    raw = b"".join(store.read_log(at, SETTINGS.segment_size_bytes) for at in (place, 8192))
    store.close()
    state = truncate(files, place)
    assert (state.start, state.end, state.message_count, state.why) == (place, end, 30, "a test")
    assert list_truncations(files, ROOT) == [state]
    assert files.read_bytes(state.path) == raw
    assert json.loads(files.read_bytes(state.path.removesuffix(".log") + ".json"))["start"] == place
    again = make_store(files)
    report = again.open()
    assert report.clean
    assert report.scan_start == report.log_end == place
    assert everything(again) == first(50)
    assert again.find_by_key("T", "k49", 9)
    assert not again.find_by_key("T", "k50", 9)


@pytest.mark.parametrize("plain_bytes", [0, 1 << 30])
@pytest.mark.parametrize("number", [0, 1, 35, 36, 50, 79])
@pytest.mark.parametrize("into", [0, 1, 95])
def test_truncation_goes_back_to_the_start_of_a_record(
    number: int, into: int, plain_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_scanner, "PLAIN_BYTES_MAX", plain_bytes)
    files = MemoryFiles()
    places, end = filled(files)
    state = truncate(files, places[number].physical_offset + into)
    assert (state.start, state.end) == (places[number].physical_offset, end)
    store = opened(files)
    assert store.physical_max_offset == places[number].physical_offset
    assert everything(store) == ({key: found for key, found in first(number).items() if found})
    put(store, "T", number % 2, b"new")
    assert store.max_offset("T", number % 2) == number // 2 + 1


def test_truncation_goes_back_to_the_start_of_a_blank_record_and_keeps_a_whole_one() -> None:
    files = MemoryFiles()
    places, _ = filled(files)
    last = max(p.physical_offset + p.size_bytes for p in places if p.physical_offset < SETTINGS.segment_size_bytes)
    copy = MemoryFiles.restored(files.snapshot().image())
    assert truncate(files, SETTINGS.segment_size_bytes - 1).start == last
    assert truncate(copy, SETTINGS.segment_size_bytes).start == SETTINGS.segment_size_bytes


def test_truncation_goes_back_to_the_start_of_damage() -> None:
    files = MemoryFiles()
    places, _ = filled(files)
    files.nodes[f"{ROOT}/commitlog/{0:020d}"].data[places[10].physical_offset + 4] ^= 1
    assert truncate(files, places[10].physical_offset + 50).start == places[10].physical_offset
    files = MemoryFiles()
    places, _ = filled(files)
    files.nodes[f"{ROOT}/commitlog/{0:020d}"].data[places[10].physical_offset + 4] ^= 1
    state = truncate(files, places[12].physical_offset)
    assert (state.start, state.message_count) == (places[12].physical_offset, 68)


def test_nothing_is_truncated_behind_the_end() -> None:
    files = MemoryFiles()
    _, end = filled(files)
    for asked in (end, end + 1000):
        state = truncate(files, asked)
        assert (state.start, state.end, state.message_count, state.path) == (end, end, 0, "")
    assert list_truncations(files, ROOT) == []
    assert everything(opened(files)) == first(80)


def test_everything_may_be_truncated_and_nothing_before_it() -> None:
    files = MemoryFiles()
    filled(files, 150)
    store = opened(files)
    begin = drop_oldest(store)
    store.close()
    with pytest.raises(StoreError, match=f"begins at {begin}"):
        truncate(files, begin - 1)
    assert truncate(files, begin).start == begin
    store = opened(files)
    assert store.physical_min_offset == store.physical_max_offset == begin
    store.follow().start_at(begin + 2 * SETTINGS.segment_size_bytes)  # an empty log may begin elsewhere


def test_an_open_store_is_not_truncated() -> None:
    files = MemoryFiles()
    filled(files)
    opened(files)
    with pytest.raises(StoreError, match="locked"):
        truncate(files, 0)


def test_a_full_disk_truncates_nothing() -> None:
    files = MemoryFiles()
    places, end = filled(files)

    def full(call: str, path: str) -> None:
        if call == "pwrite" and "/divergent/" in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    files.fault = full
    with pytest.raises(OSError, match="No space left"):
        truncate(files, places[50].physical_offset)
    files.fault = None
    assert list_truncations(files, ROOT) == []
    assert everything(opened(files)) == first(80)
    assert opened(MemoryFiles.restored(files.snapshot().image())).physical_max_offset == end


@pytest.mark.parametrize("text", [b"{", b'{"path":"\xff"}'])
def test_a_malformed_record_of_a_truncation_is_named(text: bytes) -> None:
    files = MemoryFiles()
    files.makedirs(f"{ROOT}/divergent")
    files.open(f"{ROOT}/divergent/x.json", create=True).pwrite(0, text)
    with pytest.raises(StoreError, match=r"divergent/x\.json"):
        list_truncations(files, ROOT)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [None, DROP_ALL, KEEP_PAGES, KEEP_ALL], ids=["kill", "drop", "pages", "all"])
def test_a_crash_leaves_a_whole_log_and_no_truncation_without_its_record(loss: Loss | None) -> None:
    """Crashes at every call. Then the truncation is repeated."""
    files = MemoryFiles()
    places, end = filled(files)
    place = places[20].physical_offset  # more than two segments are truncated
    before = files.snapshot().image()
    store = opened(MemoryFiles.restored(before))
    log = b"".join(store.read_log(at, 1 << 20) for at in range(0, end, SETTINGS.segment_size_bytes))
    ends = {0, *(each.physical_offset + each.size_bytes for each in places), 4096, 8192}
    crashes = truncations = 0
    while (image := crashed(before, place, crashes, loss)) is not None:
        crashes += 1
        left = MemoryFiles.restored(image)
        store = opened(left)
        assert place <= store.physical_max_offset <= end
        assert store.physical_max_offset in ends
        assert everything(store) == first(sum(p.physical_offset < store.physical_max_offset for p in places))
        if store.physical_max_offset < end:
            truncations += 1
            state = list_truncations(left, ROOT)[0]
            assert (state.start, state.end, state.message_count) == (place, end, 60)
            assert left.read_bytes(state.path) == log[place:end]
        store.close()
        assert truncate(left, place).start == place
        store = opened(left)
        assert store.physical_max_offset == place
        assert everything(store) == first(20)
    assert 0 < truncations < crashes > 60


def crashed(before: Image, place: int, call_number: int, loss: Loss | None) -> Image | None:
    """Return the disk after a kill or power loss in one call of a truncation, None when it has fewer calls."""
    files = MemoryFiles.restored(before)
    left = [call_number]

    def die_then(call: str, path: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise _Killed

    files.fault = die_then
    snapshot = None
    try:
        truncate(files, place)
        return None
    except _Killed:
        files.fault = None
        snapshot = files.snapshot()
    return snapshot.image() if loss is None else loss.of(snapshot)

"""Segments, blank records and failing writes: no refused byte is kept, no acknowledged byte is lost."""

from __future__ import annotations

import errno
import os
import resource
import signal
import threading
from pathlib import Path

import pytest

from pymq.errors import StoreError, StoreUnavailableError
from pymq.model.draft import Draft
from pymq.model.layout import MAGIC_BLANK, RECORD_START
from pymq.store.disk.fs import Files, RealFiles
from pymq.store.disk.memory_fs import MemoryFiles
from tests.store.support import bodies, everything, make_store, put, read_all, stage


@pytest.fixture(params=["memory", "real"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    return (MemoryFiles(), "/store") if request.param == "memory" else (RealFiles(), str(tmp_path / "store"))


def test_segments_roll_with_a_blank(place: tuple[Files, str]) -> None:
    files, root = place
    store = make_store(files, root=root)
    store.open()
    ends = [put(store, "T", 0, b"x" * 500) for _ in range(10)]
    assert [segment.start for segment in store._log.segments] == [0, 4096]
    last = max(p.physical_offset + p.size_bytes for p in ends if p.physical_offset < 4096)
    left = 4096 - last
    assert RECORD_START.unpack_from(store._log.segments[0].view(), last) == (left, MAGIC_BLANK)
    assert min(p.physical_offset for p in ends if p.physical_offset >= 4096) == 4096
    assert len(read_all(store, "T", 0)) == 10
    store.close()
    assert files.listdir(f"{root}/commitlog") == [f"{0:020d}", f"{4096:020d}"]


def test_a_batch_never_spans_segments() -> None:
    store = make_store(MemoryFiles())
    store.open()
    put(store, "T", 0, b"x" * 3000)
    placed = store.stage_many("T", 0, [Draft(b"y" * 400, b"", 1, b"\0" * 8)] * 3)
    store.commit()
    assert [p.physical_offset // 4096 for p in placed] == [1, 1, 1]
    assert [p.queue_offset for p in placed] == [1, 2, 3]


def test_one_commit_may_fill_several_segments() -> None:
    store = make_store(MemoryFiles())
    store.open()
    for body in (b"x" * 1500 for _ in range(7)):
        stage(store, "T", 0, body)
    store.commit()
    assert len(store._log.segments) == 4
    assert len(read_all(store, "T", 0)) == 7


def test_a_record_larger_than_a_segment_is_refused_and_leaves_nothing() -> None:
    store = make_store(MemoryFiles())
    store.open()
    with pytest.raises(StoreError, match="4088"):
        put(store, "T", 0, b"x" * 4096)
    assert put(store, "T", 0, b"small") == (0, 0, 91 + 5 + 1)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EFBIG])
@pytest.mark.parametrize("call", ["pwrite", "open"])
def test_a_failed_write_keeps_nothing_and_the_next_one_works(number: int, call: str) -> None:
    files = MemoryFiles(free_bytes=0)
    store = make_store(files)
    store.open()
    put(store, "T", 0, b"before")

    def fault(name: str, path: str) -> None:
        if name == call and "/commitlog/" in path:
            raise OSError(number, os.strerror(number), path)

    for size in (500, 3000, 900):
        stage(store, "T", 0, b"x" * size)
        stage(store, "U", 1, b"y" * size)
    files.fault = fault
    with pytest.raises(StoreUnavailableError, match=rf"/store/commitlog.*{os.strerror(number)}.*0 B free"):
        store.commit()
    assert everything(store) == {("T", 0): [b"before"]}
    files.fault = None
    assert put(store, "T", 0, b"after").queue_offset == 1
    assert everything(store) == {("T", 0): [b"before", b"after"]}
    store.close()


def test_remains_of_a_failed_write_are_zeroed_before_the_next(tmp_path: Path) -> None:
    """The file and its limit are real: the kernel writes a part and refuses the rest (EFBIG)."""
    root = str(tmp_path / "store")
    store = make_store(RealFiles(), root=root, segment_size_bytes=1 << 20)
    store.open()
    put(store, "T", 0, b"before")
    end = store.physical_max_offset
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    stage(store, "T", 0, b"x" * 200_000)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, old[1]))
        with pytest.raises(StoreUnavailableError, match="errno 27"):
            store.commit()
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        assert put(store, "T", 0, b"after").physical_offset == end
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    assert [m.body for m in read_all(store, "T", 0)] == [b"before", b"after"]
    assert not any((Path(root) / "commitlog" / f"{0:020d}").read_bytes()[store.physical_max_offset :])
    store.close()


@pytest.mark.parametrize(
    ("number", "next_step"),
    [
        (errno.EIO, "check the disk, then restart the broker"),
        (errno.ENOSPC, "make room on the disk, then restart the broker"),
        (errno.EDQUOT, "make room on the disk, then restart the broker"),
    ],
)
def test_a_failed_fsync_makes_the_store_read_only_until_a_restart(number: int, next_step: str) -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    put(store, "T", 0, b"kept")

    def fault(call: str, path: str) -> None:
        if call == "sync" and "/commitlog/" in path:
            raise OSError(number, os.strerror(number), path)

    files.fault = fault
    with pytest.raises(StoreUnavailableError, match="read-only until"):
        store.sync()
    files.fault = None  # even with room the pages that the system dropped do not come back
    assert f"(errno {number})" in store.problems[0] and next_step in store.problems[0]
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="read-only until"):
            stage(store, "T", 0, b"refused")
        with pytest.raises(StoreUnavailableError):
            store.sync()
    assert [m.body for m in read_all(store, "T", 0)] == [b"kept"]
    assert store.problems


def test_sync_from_another_thread_while_sending(tmp_path: Path) -> None:
    store = make_store(RealFiles(), root=str(tmp_path / "store"), segment_size_bytes=1 << 14)
    store.open()
    stop = threading.Event()
    seen: list[int] = []

    def work() -> None:
        while not stop.is_set():
            seen.append(store.sync())

    thread = threading.Thread(target=work)
    thread.start()
    for body in bodies(3000):
        put(store, "T", 0, body, keys="k")
    stop.set()
    thread.join()
    assert seen == sorted(seen)
    assert store.sync() == store.physical_max_offset == store.synced_offset
    store.close()
    assert [m.body for m in read_all_again(tmp_path)] == list(bodies(3000))


def read_all_again(tmp_path: Path) -> list:
    store = make_store(RealFiles(), root=str(tmp_path / "store"), segment_size_bytes=1 << 14)
    assert store.open().clean
    messages = read_all(store, "T", 0)
    store.close()
    return messages


def test_wrong_segment_size_is_refused() -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    put(store, "T", 0, b"x")
    store.close()
    with pytest.raises(StoreError, match="mappedFileSizeCommitLog is 8192"):
        make_store(files, segment_size_bytes=8192).open()


def test_a_second_broker_is_kept_out(tmp_path: Path) -> None:
    first = make_store(RealFiles(), root=str(tmp_path))
    first.open()
    with pytest.raises(StoreError, match="locked"):
        make_store(RealFiles(), root=str(tmp_path)).open()
    first.close()
    second = make_store(RealFiles(), root=str(tmp_path))
    assert second.open().clean
    second.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_sync_without_a_free_descriptor_is_tried_again(number: int) -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    put(store, "T", 0, b"x")
    store.tick()

    def fault(name: str, path: str) -> None:
        if name in ("open", "sync_dir"):
            raise OSError(number, os.strerror(number), path)

    files.fault = fault
    with pytest.raises(StoreUnavailableError, match=f"errno {number}.*limit of open files"):
        store.checkpoint()
    assert store.is_writable
    files.fault = None
    store.checkpoint()
    after = make_store(files.after_power_loss(lambda path, page: False, lambda path: False))
    report = after.open()
    assert report.records_scanned == 0, "the checkpoint vouches for the queue's unit"
    assert after.max_offset("T", 0) == 1

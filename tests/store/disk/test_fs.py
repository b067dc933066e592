"""Both file systems behave alike, and the one in memory loses exactly what was not synced."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from pymq.errors import StoreError
from pymq.store.disk import fs
from pymq.store.disk.access import open_to_others
from pymq.store.disk.fs import SYNCED_TOGETHER_MIN, Files, RealFiles, make_directory
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles


@pytest.fixture(params=["memory", "real"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    if request.param == "real":
        return RealFiles(), str(tmp_path)
    files = MemoryFiles()
    files.makedirs("/d")
    return files, "/d"


def test_positions_sizes_and_vectors(place: tuple[Files, str]) -> None:
    files, root = place
    file = files.open(f"{root}/f", create=True, size=100)
    assert (file.size(), file.pread(90, 50)) == (100, bytes(10))
    file.pwritev(3, [b"ab", bytearray(b"cd"), memoryview(b"ef")])
    assert file.pread(0, 12) == b"\0\0\0abcdef\0\0\0"
    file.pwritev(0, [b"%d" % (i % 10) for i in range(3000)])
    assert file.pread(2990, 99) == b"0123456789"
    file.truncate(4)
    file.truncate(8)
    assert file.pread(0, 99) == b"0123\0\0\0\0"
    assert file.next_data(0) == 0
    file.close()


@pytest.mark.parametrize(("at", "size", "found"), [(2, 4, b"2345"), (7, 5, b"789"), (10, 3, b""), (99, 3, b"")])
def test_reading_into_memory(place: tuple[Files, str], at: int, size: int, found: bytes) -> None:
    files, root = place
    file = files.open(f"{root}/f", create=True)
    file.pwrite(0, b"0123456789")
    file.will_read(at, size)
    room = bytearray(b"?" * size)
    assert file.pread_into(at, memoryview(room)) == len(found)
    assert room == found.ljust(size, b"?")
    file.truncate(20)  # no view of the content is left
    file.close()


def test_a_simulated_file_that_fails_fails_both_ways_to_read() -> None:
    files = MemoryFiles()
    file = files.open("/f", create=True)

    def fail(call: str, path: str) -> None:
        if call == "pread":
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = fail
    with pytest.raises(OSError, match="Input/output"):
        file.pread(0, 1)
    with pytest.raises(OSError, match="Input/output"):
        file.pread_into(0, memoryview(bytearray(1)))


def test_views_see_later_writes(place: tuple[Files, str]) -> None:
    files, root = place
    file = files.open(f"{root}/f", create=True, size=8192)
    view = file.view()
    file.pwrite(5000, b"later")
    assert (bytes(view[5000:5005]), view.readonly) == (b"later", True)
    file.release(view)
    assert bytes(view[5000:5005]) == b"later"
    file.allocate(0, 4096)
    writable = file.writable_view()
    writable[10:13] = b"abc"
    assert file.pread(10, 3) == b"abc"
    file.sync()
    file.close()
    assert bytes(view[10:13]) == b"abc"


def test_holes_are_skipped(place: tuple[Files, str]) -> None:
    files, root = place
    file = files.open(f"{root}/f", create=True, size=1 << 20)
    assert file.next_data(0) in (None, 0)
    file.pwrite(700_000, b"x")
    found = file.next_data(0)
    assert found is not None
    assert found <= 700_000
    file.close()


def test_directories(place: tuple[Files, str]) -> None:
    files, root = place
    files.makedirs(f"{root}/a/b")
    files.open(f"{root}/a/f", create=True).close()
    assert files.listdir(f"{root}/a") == ["b", "f"]
    assert files.listdir(f"{root}/none") == []
    assert (files.is_dir(f"{root}/a/b"), files.is_dir(f"{root}/a/f"), files.exists(f"{root}/a/f")) == (
        True,
        False,
        True,
    )
    files.replace(f"{root}/a/f", f"{root}/a/g")
    files.sync_dir(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/a/f")
    with pytest.raises(FileNotFoundError):
        files.read_bytes(f"{root}/a/f")
    files.remove(f"{root}/a/g")
    files.remove_tree(f"{root}/a")
    assert not files.exists(f"{root}/a")
    assert 0 < files.free_bytes(root) <= files.total_bytes(root)


def test_a_lock_is_held_once(place: tuple[Files, str]) -> None:
    files, root = place
    lock = files.lock(f"{root}/lock")
    with pytest.raises(StoreError, match="locked"):
        files.lock(f"{root}/lock")
    lock.release()
    files.lock(f"{root}/lock").release()


def filled() -> MemoryFiles:
    """Return /d/synced with an unsynced change, /d/entry with unsynced content, and /d/nothing, unsynced altogether."""
    files = MemoryFiles()
    files.makedirs("/d")
    files.sync_dir("/")
    for name in ("synced", "entry", "nothing"):
        file = files.open(f"/d/{name}", create=True)
        file.pwrite(0, b"1" * 2048)
        if name == "synced":
            file.sync()
            files.sync_dir("/d")
        elif name == "entry":
            files.sync_dir("/d")
    files.open("/d/synced").pwrite(512, b"2" * 1024)
    return files


def test_a_power_loss_keeps_synced_data_and_what_the_callables_keep() -> None:
    files = filled()
    after = files.after_power_loss(lambda _path, page: page == 1, lambda _path: False)
    assert after.listdir("/d") == ["entry", "synced"]
    assert after.read_bytes("/d/synced") == b"1" * 512 + b"2" * 512 + b"1" * 1024
    assert after.read_bytes("/d/entry") == bytes(512) + b"1" * 512 + bytes(1024)
    assert files.after_power_loss(lambda *_: True, lambda _path: True).listdir("/d") == ["entry", "nothing", "synced"]


def test_a_new_size_may_be_lost_unless_a_surviving_page_needs_it() -> None:
    files = filled()
    for page, size in ((None, 0), (1, 2048)):
        after = files.after_power_loss(lambda _, p, page=page: p == page, lambda _: False, lambda _: False)
        assert len(after.read_bytes("/d/entry")) == size
        assert len(after.read_bytes("/d/synced")) == 2048
    files.open("/d/synced").truncate(700)
    for kept, size in ((True, 700), (False, 2048)):
        after = files.after_power_loss(lambda *_: False, lambda _: True, lambda _, kept=kept: kept)
        assert after.read_bytes("/d/synced") == b"1" * size


def test_a_lost_directory_takes_its_content_with_it() -> None:
    files = filled()
    files.makedirs("/d/new")
    file = files.open("/d/new/f", create=True)
    file.sync()
    files.sync_dir("/d/new")
    assert not files.after_power_loss(lambda *_: True, lambda _: False).exists("/d/new")
    files.sync_dir("/d")
    assert files.after_power_loss(lambda *_: True, lambda _: False).listdir("/d/new") == ["f"]
    files.remove_tree("/d/new")
    assert files.after_power_loss(lambda *_: True, lambda _: False).listdir("/d/new") == ["f"]
    assert not files.after_power_loss(lambda *_: True, lambda _: True).exists("/d/new")
    files.makedirs("/d/new")  # another one of the same name
    assert files.after_power_loss(lambda *_: True, lambda _: True).listdir("/d/new") == []


def test_a_snapshot_does_not_change() -> None:
    files = filled()
    snapshot = files.snapshot()
    again = files.snapshot()
    files.open("/d/synced").pwrite(0, b"3")
    files.remove("/d/entry")
    image = snapshot.image()
    assert sorted(image.files) == ["/d/entry", "/d/nothing", "/d/synced"]
    assert image.files["/d/synced"] == b"1" * 512 + b"2" * 1024 + b"1" * 512
    assert all(one is other for one, other in zip(image.files.values(), again.image().files.values(), strict=True))
    restored = MemoryFiles.restored(image)
    assert restored.listdir("/d") == ["entry", "nothing", "synced"]
    assert restored.after_power_loss(lambda *_: False, lambda _: False).snapshot().image() == image


def test_a_new_directory_survives_a_power_loss(place: tuple[Files, str]) -> None:
    files, root = place
    make_directory(files, f"{root}/a/b")
    make_directory(files, f"{root}/a/b")
    assert files.is_dir(f"{root}/a/b")
    if isinstance(files, MemoryFiles):
        files.sync_dir("/")
        assert files.after_power_loss(lambda *_: False, lambda _: False).is_dir(f"{root}/a/b")


@pytest.mark.parametrize(("number", "refused"), [(errno.EIO, True), (errno.EACCES, False), (errno.EINVAL, False)])
def test_a_directory_entry_left_unsynced_by_an_earlier_try_is_synced(number: int, refused: bool) -> None:
    files = MemoryFiles()
    failing = True

    def fault(call: str, path: str) -> None:
        if call == "sync_dir" and failing:
            raise OSError(number, os.strerror(number), path)

    files.fault = fault
    with pytest.raises(OSError, match=os.strerror(number)):
        make_directory(files, "/d")
    with pytest.raises(OSError, match=os.strerror(number)) if refused else nullcontext():
        make_directory(files, "/d")  # it is there by now
    failing = False
    make_directory(files, "/d")
    assert files.after_power_loss(lambda *_: False, lambda _: False).is_dir("/d")


@pytest.mark.parametrize("umask", [0, 0o022, 0o177])
def test_what_is_made_is_its_users_alone(tmp_path: Path, umask: int) -> None:
    files, root = RealFiles(), f"{tmp_path}/a/b/c"
    before = os.umask(umask & 0o077)
    try:
        files.makedirs(root)
        files.makedirs(root)
        os.umask(umask)
        files.open(f"{root}/f", create=True, size=10).close()
        table = JsonTable(files, f"{root}/t.json")
        table.save({"a": 1})
        table.save({"a": 2})
        lock = files.lock(f"{root}/lock")
        lock.release()
    finally:
        os.umask(before)
    assert {files.mode(f"{tmp_path}/a{below}") for below in ("", "/b", "/b/c")} == {0o700}
    names = files.listdir(root)
    assert names == ["f", "lock", "t.json", "t.json.bak"]
    assert {files.mode(f"{root}/{name}") for name in names} == {0o600}


def test_a_directory_open_to_others_is_said_and_kept(tmp_path: Path) -> None:
    files, root = RealFiles(), f"{tmp_path}/s"
    files.makedirs(root)
    assert open_to_others(root, files.mode(root)) is None
    for mode in (0o750, 0o701, 0o755):
        Path(root).chmod(mode)
        assert f"{root} has mode {mode:03o}" in str(open_to_others(root, files.mode(root)))
        assert files.mode(root) == mode


@pytest.mark.parametrize("count", [3, SYNCED_TOGETHER_MIN])
def test_many_files_are_synced_together_and_missing_ones_left_out(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(fs.RealFile, "sync", lambda file: synced.append(file.path))
    files, paths = RealFiles(), [f"{tmp_path}/{number}" for number in range(count)]
    for path in paths:
        files.open(path, create=True).close()
    files.sync_together([*paths, f"{tmp_path}/gone"], [str(tmp_path), f"{tmp_path}/no directory"])
    assert sorted(synced) == sorted(paths)

    def failing(file: fs.RealFile) -> None:
        if file.path == paths[1]:
            raise OSError(errno.EIO, "broken", file.path)

    monkeypatch.setattr(fs.RealFile, "sync", failing)
    with pytest.raises(OSError, match="broken"):
        files.sync_together(paths, [])

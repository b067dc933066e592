"""Files are opened only when they are regular ones of a possible size; nothing waits, and errors say what to do."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pymq.offline.files import ReadOnlyFiles
from pymq.store.disk import regular_files
from pymq.store.disk.fs import RealFiles, put_file
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.disk.regular_files import WHOLE_FILE_BYTES_MAX, FileKind, OddFileError


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one, pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)  # a socket's path has at most 107 bytes
        one.bind(path.name)


def make_link(path: Path) -> None:
    (path.parent / "target").write_bytes(b"of somebody else")
    path.symlink_to(path.parent / "target")


MAKERS: dict[FileKind, Callable[[Path], None]] = {
    FileKind.DIRECTORY: Path.mkdir,
    FileKind.LINK: make_link,
    FileKind.FIFO: os.mkfifo,
    FileKind.SOCKET: make_socket,
}
CALLS: dict[str, Callable[[str], object]] = {
    "open": RealFiles().open,
    "create": lambda path: RealFiles().open(path, create=True, size=100),
    "begin": lambda path: RealFiles().begin_of(path, 4096),
    "lock": RealFiles().lock,
    "open to read": ReadOnlyFiles().open,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: FileKind, call: str) -> None:
    path = tmp_path / "it"
    MAKERS[kind](path)
    with pytest.raises(OddFileError, match=f"is {kind.value}, a regular file belongs there: move it away") as caught:
        CALLS[call](str(path))
    assert caught.value.filename == str(path)
    if kind is FileKind.LINK:
        assert (tmp_path / "target").read_bytes() == b"of somebody else"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", [FileKind.DIRECTORY, FileKind.FIFO, FileKind.SOCKET])
def test_reading_as_a_whole_refuses_them_too(tmp_path: Path, kind: FileKind) -> None:
    MAKERS[kind](tmp_path / "it")
    with pytest.raises(OddFileError, match=kind.value):
        RealFiles().read_bytes(str(tmp_path / "it"))


def test_a_device_is_refused() -> None:
    for call in (RealFiles().open, RealFiles().read_bytes):
        with pytest.raises(OddFileError, match="is a device"):
            call("/dev/null")


def test_reading_as_a_whole_follows_a_link(tmp_path: Path) -> None:
    make_link(tmp_path / "it")
    assert RealFiles().read_bytes(str(tmp_path / "it")) == b"of somebody else"


def test_a_file_whose_size_is_not_told_is_read_whole() -> None:
    assert RealFiles().read_bytes("/proc/self/status").startswith(b"Name:")


def test_a_missing_file_stays_a_missing_file(tmp_path: Path) -> None:
    for call in (RealFiles().open, RealFiles().read_bytes):
        with pytest.raises(FileNotFoundError):
            call(str(tmp_path / "it"))


def test_the_size_of_a_file_read_as_a_whole_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.json"
    path.touch()
    os.truncate(path, WHOLE_FILE_BYTES_MAX + 1)
    with pytest.raises(
        OddFileError, match=f"has {WHOLE_FILE_BYTES_MAX + 1} bytes, the limit is {WHOLE_FILE_BYTES_MAX}"
    ):
        RealFiles().read_bytes(str(path))
    monkeypatch.setattr(regular_files, "WHOLE_FILE_BYTES_MAX", 100)
    os.truncate(path, 100)
    assert RealFiles().read_bytes(str(path)) == bytes(100)
    os.truncate(path, 101)
    with pytest.raises(OddFileError, match="has 101 bytes, the limit is 100"):
        RealFiles().read_bytes(str(path))


def test_no_file_is_written_that_could_not_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_files, "WHOLE_FILE_BYTES_MAX", 100)
    files = MemoryFiles()
    put_file(files, "/table", bytes(100))
    with pytest.raises(OddFileError, match="has 101 bytes"):
        put_file(files, "/table", bytes(101))
    assert files.read_bytes("/table") == bytes(100)


def test_entries_say_what_each_name_is(tmp_path: Path) -> None:
    for kind, make in MAKERS.items():
        make(tmp_path / kind.name)
    (tmp_path / "FILE").touch()
    found = RealFiles().entries(str(tmp_path))
    assert found == {**{kind.name: kind for kind in (*MAKERS, FileKind.FILE)}, "target": FileKind.FILE}
    assert list(found) == RealFiles().listdir(str(tmp_path))
    assert {name: RealFiles().kind(str(tmp_path / name)) for name in found} == found
    assert RealFiles().entries(str(tmp_path / "nothing")) == {}
    assert RealFiles().kind(str(tmp_path / "nothing")) is None


def test_no_directory_is_made_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "0").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OddFileError, match="is a symbolic link, a directory belongs there"):
        RealFiles().makedirs(str(tmp_path / "0"))


@pytest.mark.parametrize("kind", [FileKind.FIFO, FileKind.LINK, FileKind.DEVICE])
def test_files_in_memory_refuse_the_same(kind: FileKind) -> None:
    files = MemoryFiles()
    files.odd["/it"] = kind
    for call in (files.open, files.read_bytes, files.makedirs):
        with pytest.raises(OddFileError, match=kind.value):
            call("/it")
    assert files.entries("/") == {"it": kind}
    assert files.exists("/it")

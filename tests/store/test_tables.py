"""JSON tables: old or new after any crash, the backup when the file is bad, RocketMQ's odd maps."""

from __future__ import annotations

import errno
import os

import pytest

from pymq.errors import StoreUnavailableError
from pymq.store.memory_fs import MemoryFiles
from pymq.store.tables import JsonTable

PATH = "/config/topics.json"


class _Crash(BaseException):
    """The machine stops here."""


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.makedirs("/config")
    return files


def test_round_trip_and_backup(files: MemoryFiles) -> None:
    table = JsonTable(files, PATH)
    assert table.load() == {}
    table.save({"a": 1, "ü": {"0": 2}})
    table.save({"a": 2})
    assert JsonTable(files, PATH).load() == {"a": 2}
    assert JsonTable(files, PATH + ".bak").load() == {"a": 1, "ü": {"0": 2}}


def test_unquoted_integer_keys(files: MemoryFiles) -> None:
    files.open(PATH, create=True).pwrite(0, b'{\n\t"offsetTable":{"T@G":{0:61,1:62\n\t\t}\n\t}\n}')
    assert JsonTable(files, PATH).load() == {"offsetTable": {"T@G": {"0": 61, "1": 62}}}


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b'{"a":', b"[1]", None])
def test_a_bad_file_gives_way_to_its_backup(files: MemoryFiles, content: bytes | None) -> None:
    table = JsonTable(files, PATH)
    table.save({"a": 1})
    table.save({"a": 2})
    if content is None:
        files.remove(PATH)
    else:
        files.open(PATH).truncate(0)
        files.open(PATH).pwrite(0, content)
    again = JsonTable(files, PATH)
    assert again.load() == {"a": 1}
    assert again.recovered_from_backup


def test_unchanged_content_is_not_written(files: MemoryFiles) -> None:
    table = JsonTable(files, PATH)
    table.save({"a": 1})
    calls: list[str] = []
    files.fault = lambda call, path: calls.append(call)
    table.save({"a": 1})
    assert calls == []


@pytest.mark.parametrize("keep", [False, True])
def test_a_power_loss_at_any_call_leaves_the_old_or_the_new_table(keep: bool) -> None:
    number, finished = 0, False
    while not finished:
        number += 1
        files = MemoryFiles()
        files.makedirs("/config")
        files.sync_dir("/")
        table = JsonTable(files, PATH)
        table.save({"n": 1})
        table.save({"n": 2})
        left = [number]

        def fault(call: str, path: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise _Crash

        files.fault = fault
        try:
            table.save({"n": 3})
            finished = True
        except _Crash:
            pass
        files.fault = None
        after = files.after_power_loss(lambda _path, _page: keep, lambda _path: keep)
        assert JsonTable(after, PATH).load() in ([{"n": 3}] if finished else [{"n": 2}, {"n": 3}])
    assert number > 10


def test_a_full_disk_is_named_and_the_old_content_stays(files: MemoryFiles) -> None:
    table = JsonTable(files, PATH)
    table.save({"n": 1})

    def fault(call: str, path: str) -> None:
        if call == "pwrite":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    files.fault = fault
    with pytest.raises(StoreUnavailableError, match=r"topics\.json.*No space left"):
        table.save({"n": 2})
    files.fault = None
    assert JsonTable(files, PATH).load() == {"n": 1}
    table.save({"n": 2})
    assert JsonTable(files, PATH).load() == {"n": 2}

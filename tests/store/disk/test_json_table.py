"""JSON tables: old or new after any crash, the backup replaces a bad file, RocketMQ's unquoted integer keys."""

from __future__ import annotations

import errno
import os
import zlib

import pytest

from pymq.errors import StoreError, StoreUnavailableError
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from tests.store.disk.crash_points import crash_points, every_outcome

PATH = "/config/topics.json"


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.makedirs("/config")
    files.sync_dir("/")
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
def test_a_bad_file_is_replaced_by_its_backup(files: MemoryFiles, content: bytes | None) -> None:
    table = JsonTable(files, PATH)
    table.save({"a": 1})
    table.save({"a": 2})
    if content is None:
        files.remove(PATH)
    else:
        files.open(PATH).truncate(0)
        files.open(PATH).pwrite(0, content)
    assert JsonTable(files, PATH).load() == {"a": 1}


def test_unchanged_content_is_not_written(files: MemoryFiles) -> None:
    table = JsonTable(files, PATH)
    table.save({"a": 1})
    calls: list[str] = []
    files.fault = lambda call, path: calls.append(call)
    table.save({"a": 1})
    assert calls == []


@pytest.mark.parametrize("earlier", [0, 1, 2, 3])
def test_a_crash_between_any_two_calls_leaves_the_old_or_the_new_table(earlier: int, files: MemoryFiles) -> None:
    """Covers kills and power losses with every subset of unsynced data, for a first, a second and later saves."""
    padding = "x" * 1200  # three pages
    tables = [{"n": number, "padding": padding} for number in range(earlier + 1)]
    for table in tables[:-1]:
        JsonTable(files, PATH).load()
        saved = JsonTable(files, PATH)
        saved.load()
        saved.save(table)
    old, new = tables[-2] if earlier else {}, tables[-1]

    def save() -> None:
        table = JsonTable(files, PATH)
        table.load()
        table.save(new)

    points = outcomes = 0
    for is_finished in crash_points(save, files):
        points += 1
        assert JsonTable(files, PATH).load() in ([new] if is_finished else [old, new])
        for after in every_outcome(files):
            outcomes += 1
            assert JsonTable(after, PATH).load() in ([new] if is_finished else [old, new])
            again = JsonTable(after, PATH)  # and the next run can save
            again.load()
            again.save({"n": "again"})
            assert JsonTable(after, PATH).load() == {"n": "again"}
    assert points >= (13 if earlier else 8) and outcomes >= (40 if earlier else 20)


def test_a_crash_while_a_damaged_file_is_replaced_leaves_the_backup_or_the_new_table(files: MemoryFiles) -> None:
    table = JsonTable(files, PATH)
    table.save({"n": 1})
    table.save({"n": 2})
    files.open(PATH).pwrite(3, b"?")
    files.open(PATH).sync()

    def save() -> None:
        table = JsonTable(files, PATH)
        assert table.load() == {"n": 1}
        table.save({"n": 3})

    for is_finished in crash_points(save, files):
        for after in every_outcome(files):
            assert JsonTable(after, PATH).load() in ([{"n": 3}] if is_finished else [{"n": 1}, {"n": 3}])
            assert any(after.exists(p) and b"?" in after.read_bytes(p) for p in (PATH, PATH + ".bad"))
    assert b"?" in files.read_bytes(PATH + ".bad"), "what an operator may have written is kept"


@pytest.mark.parametrize("call", ["open", "truncate", "pwrite", "sync", "replace", "sync_dir"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_a_failing_call_leaves_the_old_table_and_the_next_save_works(
    files: MemoryFiles, call: str, number: int
) -> None:
    for failing_one in range(1 if call == "sync_dir" else 2):
        table = JsonTable(files, PATH)
        table.load()
        table.save({"n": 1})
        seen = 0

        def fault(called: str, path: str, failing_one: int = failing_one) -> None:
            nonlocal seen
            seen += called == call
            if called == call and seen == failing_one + 1:
                raise OSError(number, os.strerror(number), path)

        files.fault = fault
        with pytest.raises(StoreUnavailableError, match=rf"topics\.json.*errno {number}"):
            table.save({"n": 2})
        files.fault = None
        assert JsonTable(files, PATH).load() in ({"n": 1}, {"n": 2})
        table.save({"n": 3})
        assert JsonTable(files, PATH).load() == {"n": 3}


# -- damage ------------------------------------------------------------------------------------------------------


def test_every_flipped_bit_is_found_and_the_backup_used(files: MemoryFiles, caplog: pytest.LogCaptureFixture) -> None:
    """No flip changes an offset: the table is the new one (the flip is outside the content) or the backup's."""
    offsets = {"dataVersion": {"counter": 3}, "offsetTable": {"T@G": {"0": 61, "1": 62}}}
    table = JsonTable(files, PATH, "offsetTable")
    table.save({"offsetTable": {}})
    table.save(offsets)
    good = files.read_bytes(PATH)
    fallbacks = 0
    for at in range(len(good)):
        for bit in range(8):
            files.open(PATH).pwrite(0, good[:at] + bytes((good[at] ^ 1 << bit,)) + good[at + 1 :])
            found = JsonTable(files, PATH, "offsetTable").load()
            found.pop("pymqCrc3r", None)
            named = {name: value for name, value in found.items() if name in ("dataVersion", "offsetTable")}
            assert named in (offsets, {"offsetTable": {}})
            fallbacks += named != offsets
    assert fallbacks > 8 * len(good) * 0.7
    assert len(caplog.records) == fallbacks and "topics.json.bak is used instead" in caplog.text


def test_a_file_that_another_broker_wrote_needs_no_checksum(files: MemoryFiles) -> None:
    files.open(PATH, create=True).pwrite(0, b'{"offsetTable":{"T@G":{0:61}}}')
    assert JsonTable(files, PATH, "offsetTable").load() == {"offsetTable": {"T@G": {"0": 61}}}


def test_the_checksum_is_a_member_that_rocketmq_ignores(files: MemoryFiles) -> None:
    JsonTable(files, PATH).save({"a": 1})
    raw = files.read_bytes(PATH)
    assert raw == b'{\n "pymqCrc32": "ab43ba76",\n "a": 1\n}'
    assert zlib.crc32(raw.replace(b"ab43ba76", b"00000000")) == 0xAB43BA76


def test_an_edited_file_says_what_to_do(files: MemoryFiles, caplog: pytest.LogCaptureFixture) -> None:
    table = JsonTable(files, PATH)
    table.save({"n": 1})
    table.save({"n": 2})
    edited = files.read_bytes(PATH).replace(b": 2", b": 5")
    files.open(PATH).pwrite(0, edited)
    assert JsonTable(files, PATH).load() == {"n": 1}
    assert "was edited (then remove its line pymqCrc32)" in caplog.text
    without = b"".join(line for line in edited.splitlines(True) if b"pymqCrc32" not in line)
    files.open(PATH).truncate(0)
    files.open(PATH).pwrite(0, without)
    assert JsonTable(files, PATH).load() == {"n": 5}


@pytest.mark.parametrize("content", [None, b"", b'{"a": 1', b'{"pymqCrc32": "00000000", "a": 1}'])
def test_a_table_that_may_not_go_back_loads_no_backup(files: MemoryFiles, content: bytes | None) -> None:
    table = JsonTable(files, PATH, may_go_back=False)
    table.save({"a": 1})
    table.save({"a": 2})
    assert JsonTable(files, PATH, may_go_back=False).load() == {"a": 2}
    files.remove(PATH)
    if content is not None:
        files.open(PATH, create=True).pwrite(0, content)
    with pytest.raises(StoreError, match=f"{PATH}.bak lacks the newest change and is not used; put back a copy"):
        JsonTable(files, PATH, may_go_back=False).load()
    files.remove(PATH + ".bak")
    if content is None:
        assert JsonTable(files, PATH, may_go_back=False).load() == {}


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b'{"a":', b"[1]", b'{"other":{}}', b'{"offsetTable":[]}'])
@pytest.mark.parametrize("backup", [b"", b"{", None])
def test_two_bad_files_are_an_error(files: MemoryFiles, content: bytes, backup: bytes | None) -> None:
    files.open(PATH, create=True).pwrite(0, content)
    if backup is not None:
        files.open(PATH + ".bak", create=True).pwrite(0, backup)
    with pytest.raises(StoreError, match=r"/topics\.json.*/topics\.json\.bak away to start with an empty"):
        JsonTable(files, PATH, "offsetTable").load()
    files.remove(PATH)
    if backup is not None:
        files.remove(PATH + ".bak")
    assert JsonTable(files, PATH, "offsetTable").load() == {}


def test_an_empty_object_is_no_table(files: MemoryFiles) -> None:
    """Neither broker writes one: somebody emptied the file."""
    files.open(PATH, create=True).pwrite(0, b"{}")
    with pytest.raises(StoreError, match="holds nothing"):
        JsonTable(files, PATH, "offsetTable").load()


def test_an_unreadable_file_counts_as_damaged(files: MemoryFiles, caplog: pytest.LogCaptureFixture) -> None:
    table = JsonTable(files, PATH)
    table.save({"n": 1})
    table.save({"n": 2})

    def fault(call: str, path: str) -> None:
        if call == "read_bytes" and path == PATH:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = fault
    assert JsonTable(files, PATH).load() == {"n": 1}
    assert "topics.json can't be read: Input/output error (errno 5)" in caplog.text


# -- a full disk -------------------------------------------------------------------------------------------------


def test_a_full_disk_is_reported_and_the_old_content_stays(files: MemoryFiles) -> None:
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

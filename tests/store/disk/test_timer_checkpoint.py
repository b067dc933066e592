"""The timer checkpoint: RocketMQ's bytes, and the fields that stay a broker's own."""

from __future__ import annotations

import struct

import pytest

from pymq.errors import StoreError
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.disk.timer_checkpoint import FIELDS, FILE_BYTES, TimerCheckFile, read_timer_check

PATH = "/data/config/timercheck"


def files_with(raw: bytes) -> MemoryFiles:
    files = MemoryFiles()
    files.makedirs("/data/config")
    if raw:
        file = files.open(PATH, create=True)
        file.pwrite(0, raw)
        file.close()
    return files


def test_an_answer_is_read() -> None:
    assert read_timer_check(struct.pack(">7q", 1, 2, 3, 4, 5, 6, 7)) == dict(zip(FIELDS, range(1, 8), strict=True))


def test_older_brokers_have_no_version() -> None:
    assert list(read_timer_check(struct.pack(">4q", 1, 2, 3, 4)).values()) == [1, 2, 3, 4, 0, 0, 0]
    with pytest.raises(ValueError, match="these are 31"):
        read_timer_check(b"\0" * 31)


def test_a_new_file_has_zeros_as_own_positions() -> None:
    files = files_with(b"")
    file = TimerCheckFile(files, "/data")
    assert file.load() == {}
    file.save(read_timer_check(struct.pack(">7q", 1, 2, 3, 4, 5, 6, 7)))
    raw = files.read_bytes(PATH)
    assert len(raw) == FILE_BYTES and raw[56:] == bytes(FILE_BYTES - 56)
    assert struct.unpack(">7q", raw[:56]) == (1, 0, 0, 4, 5, 6, 7)


def test_a_broker_s_own_positions_stay() -> None:
    files = files_with(struct.pack(">7q", 10, 20, 30, 40, 50, 60, 70) + b"x" * 4040)
    TimerCheckFile(files, "/data").save(read_timer_check(struct.pack(">7q", 1, 2, 3, 4, 5, 6, 7)))
    raw = files.read_bytes(PATH)
    assert struct.unpack(">7q", raw[:56]) == (1, 20, 30, 4, 5, 6, 7) and raw[56:] == b"x" * 4040


def test_an_unusable_file_is_replaced() -> None:
    files = files_with(b"short")
    file = TimerCheckFile(files, "/data")
    assert file.load() == {}
    file.save(read_timer_check(struct.pack(">7q", 1, 2, 3, 4, 5, 6, 7)))
    assert file.load()["masterTimerQueueOffset"] == 4 and file.load()["lastTimerQueueOffset"] == 0


def test_a_failing_disk_is_reported() -> None:
    files = files_with(b"")

    def fault(call: str, path: str) -> None:
        if call == "pwrite":
            raise OSError(28, "No space left on device", path)

    files.fault = fault
    with pytest.raises(StoreError, match="timercheck: No space left"):
        TimerCheckFile(files, "/data").save(read_timer_check(bytes(56)))

"""A start on a disk without room, after a kill: everything is served, and writes go on when there is room."""

from __future__ import annotations

import errno
import os

import pytest

from pymq.errors import StoreUnavailableError
from pymq.store.disk.memory_fs import MemoryFiles
from tests.store.support import die, everything, make_store, put

TAKES_ROOM = ("pwrite", "allocate", "makedirs")


def killed() -> MemoryFiles:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    for number in range(60):
        put(store, "T", number % 3, b"%d" % number, keys=f"k{number}")
        if number == 30:
            store.tick()
            store.checkpoint()
    die(store)
    return files


def call_count() -> int:
    files, count = killed(), 0

    def note(call: str, path: str) -> None:
        nonlocal count
        count += 1

    files.fault = note
    make_store(files).open()
    return count


@pytest.mark.slow
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_start_that_finds_no_room_from_any_call_on_serves_everything(number: int, torn: bool) -> None:
    sound = make_store(killed())
    sound.open()
    wanted = everything(sound)
    for begin in range(call_count()):
        files = killed()
        if torn:
            newest = max(path for path in files.nodes if "/commitlog/" in path)
            data = files.nodes[newest].data
            end = len(bytes(data).rstrip(b"\0"))
            data[end : end + 50] = b"\x01" * min(50, len(data) - end)  # a torn record's remains
        left = begin

        def fault(call: str, path: str) -> None:
            nonlocal left
            left -= 1
            is_new = call == "open" and path not in files.nodes  # noqa: B023 - called within this round
            if left < 0 and (call in TAKES_ROOM or is_new):
                raise OSError(number, os.strerror(number), path)

        files.fault = fault
        store = make_store(files)
        store.open()
        assert everything(store) == wanted, begin
        try:
            put(store, "T", 0, b"new")
        except StoreUnavailableError as error:
            assert "make room" in str(error)
        files.fault = None
        store.tick()
        before = store.max_offset("T", 0)
        assert put(store, "T", 0, b"newer").queue_offset == before
        store.close()
        again = make_store(files)
        assert again.open().damaged == []
        assert everything(again)["T", 0][-1] == b"newer"

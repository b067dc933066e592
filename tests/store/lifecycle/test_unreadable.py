"""A whole record that can't be read is no torn end: what was acknowledged behind it survives a kill."""

from __future__ import annotations

import struct

import pytest

from pymq.clock import ManualClock
from pymq.model.draft import Draft
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.store import MessageStore
from tests.store.support import BORN, ROOT, die, make_store, put, read_all

LOG = f"{ROOT}/commitlog/{0:020d}"
PROPERTIES = b"K\x01" + b"v" * 600 + b"\x02"


def filled(files: MemoryFiles, bodies: list[bytes]) -> list[int]:
    """Store messages and die; return where each one's properties length stands."""
    store = make_store(files, ManualClock(), segment_size_bytes=1 << 17)
    store.open()
    lengths = []
    for number, body in enumerate(bodies):
        placed = store.stage("T", 0, Draft(body, PROPERTIES, number, BORN))
        store.commit()
        lengths.append(placed.physical_offset + placed.size_bytes - len(PROPERTIES) - 2)
    die(store)
    return lengths


def reopened(files: MemoryFiles) -> tuple[MessageStore, list[str]]:
    store = make_store(files.after_kill(), ManualClock(), segment_size_bytes=1 << 17)
    return store, store.open().notes


@pytest.mark.parametrize("bad", [[20], [20, 21], [3, 20, 39]])
@pytest.mark.parametrize("body", [b"x", bytes(5000)])
def test_acknowledged_messages_behind_it_are_kept(bad: list[int], body: bytes) -> None:
    files, bodies = MemoryFiles(), [body + b"%d" % number for number in range(40)] + [b"end"]
    bodies = [each if number in bad else b"%d" % number for number, each in enumerate(bodies)]
    lengths = filled(files, bodies)
    for number in bad:
        struct.pack_into(">H", files.nodes[LOG].data, lengths[number], 0x8000 + len(PROPERTIES))
    store, notes = reopened(files)
    kept = [message.body for message in read_all(store, "T", 0)]
    assert kept == [each for number, each in enumerate(bodies) if number not in bad]
    assert any("can't be read although the disk has all of it" in note for note in notes)
    put(store, "T", 0, b"next")
    assert read_all(store, "T", 0)[-1].queue_offset == len(bodies)


def test_a_hole_is_still_the_end() -> None:
    files, bodies = MemoryFiles(), [b"%d" % number for number in range(40)]
    lengths = filled(files, bodies)
    start = lengths[20] + 100 - lengths[20] % 512 + 412
    files.nodes[LOG].data[start : start + 512] = bytes(512)
    store, notes = reopened(files)
    kept = [message.body for message in read_all(store, "T", 0)]
    assert kept == bodies[: len(kept)] and 20 <= len(kept) < 24
    assert any("newer records from" in note and "dropped" in note for note in notes)

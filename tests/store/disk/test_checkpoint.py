"""The checkpoint's bytes, and a block that another broker has outdated is not trusted."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest

from pymq.store.disk.checkpoint import Checkpoint, CheckpointFile, Durable
from pymq.store.disk.memory_fs import MemoryFiles

FULL = Checkpoint(11, 22, 33, 44, 55, Durable(1, 2, 3, 4, 20260101000000000, 6))


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.makedirs("/s")
    return files


def test_golden_bytes(files: MemoryFiles) -> None:
    CheckpointFile(files, "/s/checkpoint").save(FULL)
    raw = files.read_bytes("/s/checkpoint")
    block = b"PYMQ\0\0\0\1" + struct.pack(">qqqqqqqq", 11, 22, 1, 2, 3, 4, 20260101000000000, 6)
    wanted = struct.pack(">qqqqq", 11, 22, 33, 44, 55) + bytes(24) + block + struct.pack(">I", crc32(block))
    assert raw == wanted.ljust(4096, b"\0")


def test_round_trip_and_absence(files: MemoryFiles) -> None:
    file = CheckpointFile(files, "/s/checkpoint")
    assert file.load() == Checkpoint()
    file.save(FULL)
    assert file.load() == FULL


def test_times_changed_by_another_broker_outdate_the_block(files: MemoryFiles) -> None:
    file = CheckpointFile(files, "/s/checkpoint")
    file.save(FULL)
    files.open("/s/checkpoint").pwrite(0, struct.pack(">q", 12))
    assert file.load() == Checkpoint(12, 22, 33, 44, 55)


def test_every_flipped_byte_of_the_block_is_noticed(files: MemoryFiles) -> None:
    file = CheckpointFile(files, "/s/checkpoint")
    file.save(FULL)
    raw = files.read_bytes("/s/checkpoint")
    for at in range(64, 64 + 76):
        files.nodes["/s/checkpoint"].data[at] = raw[at] ^ 0x40
        assert file.load().durable is None
        files.nodes["/s/checkpoint"].data[at] = raw[at]

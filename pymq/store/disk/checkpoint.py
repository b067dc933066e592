"""The checkpoint file: up to where log, queues and index are known to be on the disk.

RocketMQ's five numbers stand at 0..39. Behind them, where RocketMQ leaves zeros, stands PyMQ's own block
(docs/storage.md). The block repeats the first two numbers, so it is invalid as soon as another broker changes them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from zlib import crc32

from pymq.store.disk.disk_errors import lacked_room
from pymq.store.disk.fs import Files

CHECKPOINT_SIZE_BYTES = 4096
_NUMBERS = struct.Struct(">qqqqq")
_BLOCK_AT = 64
_BLOCK = struct.Struct(">8sqqqqqqqq")
_BLOCK_MAGIC = b"PYMQ\x00\x00\x00\x01"
_CRC = struct.Struct(">I")
_BEGIN_AT = _BLOCK_AT + _BLOCK.size + _CRC.size
_NUMBER = struct.Struct(">8sq")
_BEGIN_MAGIC = b"PYMQ\x00\x00\x00\x02"
_LIGHT_AT = _BEGIN_AT + _NUMBER.size + _CRC.size
_LIGHT_MAGIC = b"PYMQ\x00\x00\x00\x03"
LOG_BEGIN_UNKNOWN = -1
LIGHT_COUNT_UNKNOWN = -1  # the next start makes light queues again


@dataclass(frozen=True, slots=True)
class Durable:
    """PyMQ's block. Everything below each offset is on the disk.

    ``log_offset``: commit log; ``queue_offset``: consume queue units of records below it; ``unit_count``: units of all
    queues at that time (a different number shows that a queue was deleted by hand); ``index_offset``: keys of records
    below it; ``index_name``: newest index file's name as a number, 0 for none; ``index_count``: its entry count at that
    time. ``log_begin``: no segment from here on was deleted by then. ``light_count``: entries of light queues, of
    records below ``queue_offset``. These two stand in blocks of their own.
    """

    log_offset: int = 0
    queue_offset: int = 0
    unit_count: int = 0
    index_offset: int = 0
    index_name: int = 0
    index_count: int = 0
    log_begin: int = LOG_BEGIN_UNKNOWN
    light_count: int = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """RocketMQ's numbers (times are store timestamps in ms), and the block when it is there and valid."""

    physic_ms: int = 0
    logics_ms: int = 0
    index_ms: int = 0
    master_flushed_offset: int = 0
    confirm_offset: int = 0
    durable: Durable | None = None

    def without_queues(self) -> Checkpoint:
        """Return a copy in which no unit of any queue counts as being on the disk."""
        durable = replace(self.durable, queue_offset=0, unit_count=0, light_count=0) if self.durable else None
        return replace(self, logics_ms=0, durable=durable)

    def without_index(self) -> Checkpoint:
        """Return a copy in which no key counts as being on the disk."""
        durable = replace(self.durable, index_offset=0, index_name=0, index_count=0) if self.durable else None
        return replace(self, index_ms=0, durable=durable)

    def truncate(self, end: int) -> Checkpoint:
        """Return a copy for a log that ends at ``end``: nothing behind it counts, nor does any unit or key."""
        before = self.durable
        durable = Durable(log_offset=min(before.log_offset, end), log_begin=before.log_begin) if before else None
        return replace(self, logics_ms=0, index_ms=0, durable=durable)


class CheckpointFile:
    """Reads and writes the file. A missing or short file reads as all zeros, as RocketMQ does."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def load(self) -> Checkpoint:
        try:
            raw = self._files.read_bytes(self._path)
        except FileNotFoundError:
            return Checkpoint()
        if len(raw) < CHECKPOINT_SIZE_BYTES:
            return Checkpoint()
        checkpoint = Checkpoint(*_NUMBERS.unpack_from(raw))
        return replace(checkpoint, durable=_decode_block(raw, checkpoint))

    def save(self, checkpoint: Checkpoint) -> None:
        """Write and sync. All numbers fit one disk sector, so a torn write can't mix old and new ones."""
        if (error := self._save(checkpoint)) is not None:
            raise error

    def save_if_room(self, checkpoint: Checkpoint) -> bool:
        """Do as :meth:`save`; False when there was no room to write. Raises OSError for any other failure."""
        error = self._save(checkpoint)
        if error is not None and not lacked_room(error):
            raise error
        return error is None

    def _save(self, checkpoint: Checkpoint) -> OSError | None:
        """Return why nothing could be written. Raises OSError when the file can't be synced."""
        raw = bytearray(_BLOCK_AT)
        c = checkpoint
        _NUMBERS.pack_into(raw, 0, c.physic_ms, c.logics_ms, c.index_ms, c.master_flushed_offset, c.confirm_offset)
        if checkpoint.durable is not None:
            raw += _encode_block(checkpoint, checkpoint.durable)
        new = not self._files.exists(self._path)
        file = None
        try:
            file = self._files.open(self._path, create=True, size=CHECKPOINT_SIZE_BYTES)
            file.pwrite(0, raw)
        except OSError as error:
            if file is not None:
                file.close()
            return error
        try:
            file.sync()
        finally:
            file.close()
        if new:
            self._files.sync_dir(self._path.rpartition("/")[0])
        return None


def _encode_block(checkpoint: Checkpoint, durable: Durable) -> bytes:
    block = _BLOCK.pack(
        _BLOCK_MAGIC, checkpoint.physic_ms, checkpoint.logics_ms, durable.log_offset, durable.queue_offset,
        durable.unit_count, durable.index_offset, durable.index_name, durable.index_count,
    )  # fmt: skip
    begin = _NUMBER.pack(_BEGIN_MAGIC, durable.log_begin)
    begin += _CRC.pack(crc32(begin))
    light = _NUMBER.pack(_LIGHT_MAGIC, durable.light_count)
    light += _CRC.pack(crc32(light))
    return b"".join(
        (
            block,
            _CRC.pack(crc32(block)),
            begin if durable.log_begin >= 0 else bytes(len(begin)),
            light if durable.light_count else bytes(len(light)),
        )
    )


def _decode_block(raw: bytes, checkpoint: Checkpoint) -> Durable | None:
    block = raw[_BLOCK_AT : _BLOCK_AT + _BLOCK.size]
    magic, physic_ms, logics_ms, *numbers = _BLOCK.unpack(block)
    if magic != _BLOCK_MAGIC or _CRC.unpack_from(raw, _BLOCK_AT + _BLOCK.size)[0] != crc32(block):
        return None
    if (physic_ms, logics_ms) != (checkpoint.physic_ms, checkpoint.logics_ms):
        return None
    begin = _decode_number(raw, _BEGIN_AT, _BEGIN_MAGIC)
    return replace(
        Durable(*numbers),
        log_begin=LOG_BEGIN_UNKNOWN if begin is None else begin,
        light_count=_decode_number(raw, _LIGHT_AT, _LIGHT_MAGIC) or 0,
    )


def _decode_number(raw: bytes, at: int, wanted_magic: bytes) -> int | None:
    """Return the number of a block that holds one; None when the block is not there or not valid."""
    block = raw[at : at + _NUMBER.size]
    magic, number = _NUMBER.unpack(block)
    if magic != wanted_magic or _CRC.unpack_from(raw, at + _NUMBER.size)[0] != crc32(block):
        return None
    return int(number)

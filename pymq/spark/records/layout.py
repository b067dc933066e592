"""Finds the positions of the fields of consecutive records, for all records at once with numpy.

The byte table is in ``pymq/model/layout.py``. Each IPv6 host shifts the fields by 12 bytes, so positions are arrays.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pymq.model.layout import (
    BODY_AFTER_STORE_HOST_BYTES,
    BOTH_LENGTHS_BYTES,
    HOST_V6_EXTRA_BYTES,
    I32,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_LENGTH_BYTES,
    RECONSUME_TIMES_AT,
    RECORD_OVERHEAD_BYTES,
    STORE_TIMESTAMP_AT,
    SYS_FLAG_AT,
    TOPIC_LENGTH_BYTES,
)
from pymq.model.record import MalformedRecordError
from pymq.model.sysflag import BORN_HOST_V6, STORE_HOST_V6

Positions = npt.NDArray[np.int64]
Chunk = bytes | bytearray | memoryview
# After so many records a look at the last few says whether to expect more of one size, and how many at first.
_RECORDS_ONE_BY_ONE = 16
_EQUAL_SIZES = 4
_EQUAL_RECORDS = 64


@dataclass(slots=True)
class Layout:
    """Byte positions in ``buffer``, one element per record."""

    buffer: pa.Buffer
    octets: npt.NDArray[np.uint8]
    starts: Positions
    sys_flag: npt.NDArray[np.int32]
    store_timestamp: Positions
    reconsume: Positions
    body: Positions
    body_end: Positions
    topic: Positions
    topic_end: Positions
    properties: Positions
    end: Positions

    def __len__(self) -> int:
        return len(self.starts)

    def int32(self, positions: Positions) -> npt.NDArray[np.int32]:
        """Return the big-endian 32-bit numbers at these positions."""
        return integers(self.octets, positions, 4).astype(np.int32)

    def int64(self, positions: Positions) -> npt.NDArray[np.int64]:
        """Return the big-endian 64-bit numbers at these positions."""
        return integers(self.octets, positions, 8).astype(np.int64)

    def octet_rows(self, positions: Positions, size: int) -> npt.NDArray[np.uint8]:
        """Return ``size`` bytes from each position, as rows."""
        return _gather(self.octets, positions, f"V{size}", size).view(np.uint8).reshape(-1, size)

    def slices(self, first: Positions, last: Positions) -> pa.BinaryArray:
        """Return the bytes [first, last) of each record. Both must ascend, as the positions of a field do."""
        return slices(self.buffer, first, last)


def slices(buffer: pa.Buffer, first: Positions, last: Positions) -> pa.BinaryArray:
    """Return the ascending, non-overlapping ranges [first, last) of a buffer as a binary array, copied in C++."""
    count = len(first)
    offsets = np.zeros(2 * count + 1, np.int32)
    offsets[1::2] = first
    offsets[2::2] = last
    # Odd elements are the ranges, even ones the gaps between them.
    whole = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), buffer])
    return whole.take(pa.array(np.arange(1, 2 * count, 2)))


def find_starts(chunk: Chunk) -> Positions:
    """Return the start of each record of ``chunk``. Raises MalformedRecordError when sizes don't match its length."""
    starts: list[int] = []
    append = starts.append
    unpack = I32.unpack_from
    at, end = 0, len(chunk)
    try:
        while at < end:
            for _ in range(_RECORDS_ONE_BY_ONE):
                append(at)
                size = unpack(chunk, at)[0]
                if size < RECORD_OVERHEAD_BYTES:
                    raise MalformedRecordError(f"the record at {at} has the size {size}, less than a record's minimum")
                at += size
                if at >= end:
                    break
            else:
                if at - starts[-_EQUAL_SIZES] == _EQUAL_SIZES * size:
                    at = _find_equal_sizes(chunk, at, size, starts)
    except struct.error as error:
        raise MalformedRecordError(f"the record at {at} is truncated: {error}") from error
    if at != end:
        raise MalformedRecordError(f"the last record ends {at - end} bytes beyond the chunk of {end} bytes")
    return np.array(starts, np.int64)


def _find_equal_sizes(chunk: Chunk, at: int, size: int, starts: list[int]) -> int:
    """Add the starts of the records of one size that follow, many at once; return where the last one ends."""
    count_max = _EQUAL_RECORDS
    while count := min(count_max, (len(chunk) - at) // size):
        same = np.ndarray((count,), f">i{I32.size}", chunk, at, (size,)) == size
        found = count if same.all() else int(same.argmin())
        starts.extend(range(at, at + found * size, size))
        at += found * size
        if found < count:
            break
        count_max *= 2
    return at


def find_fields(chunk: Chunk, starts: Positions) -> Layout:
    """Find the fields of the records at ``starts`` and check every length. Raises MalformedRecordError."""
    octets = np.frombuffer(chunk, np.uint8)
    end = starts + integers(octets, starts, 4)
    magic = integers(octets, starts + MAGIC_AT, 4)
    wide = magic == MAGIC_V2
    _require(wide | (magic == MAGIC_V1), starts, "has no message magic")
    sys_flag = integers(octets, starts + SYS_FLAG_AT, 4).astype(np.int32)
    born_extra = np.where(sys_flag & BORN_HOST_V6, HOST_V6_EXTRA_BYTES, 0)
    store_timestamp = starts + STORE_TIMESTAMP_AT + born_extra
    store_extra = np.where(sys_flag & STORE_HOST_V6, HOST_V6_EXTRA_BYTES, 0)
    reconsume = starts + RECONSUME_TIMES_AT + born_extra + store_extra
    body = reconsume + BODY_AFTER_STORE_HOST_BYTES
    _require(body + BOTH_LENGTHS_BYTES <= end, starts, "is too short for its hosts")
    body_length = integers(octets, body - I32.size, 4).astype(np.int64)
    body_end = body + body_length
    topic = body_end + TOPIC_LENGTH_BYTES + wide
    _require(
        (body_length >= 0) & (topic + PROPERTIES_LENGTH_BYTES <= end), starts, "has a body length that doesn't fit"
    )
    topic_length = octets[body_end].astype(np.int64)
    if wide.any():
        topic_length[wide] = integers(octets, body_end[wide], 2)
    topic_end = topic + topic_length
    properties = topic_end + PROPERTIES_LENGTH_BYTES
    _require((topic_length >= 0) & (properties <= end), starts, "has a topic length that doesn't fit")
    properties_length = integers(octets, topic_end, 2).astype(np.int64)
    _require((properties_length >= 0) & (properties + properties_length == end), starts, "has parts that don't add up")
    return Layout(
        buffer=pa.py_buffer(chunk),
        octets=octets,
        starts=starts,
        sys_flag=sys_flag,
        store_timestamp=store_timestamp,
        reconsume=reconsume,
        body=body,
        body_end=body_end,
        topic=topic,
        topic_end=topic_end,
        properties=properties,
        end=end,
    )


def sound_records(chunk: Chunk, starts: Positions) -> npt.NDArray[np.bool_]:
    """Return for each record whether its fields add up. Half of the records at a time: few are bad."""
    try:
        find_fields(chunk, starts)
    except MalformedRecordError:
        if len(starts) == 1:
            return np.zeros(1, np.bool_)
        halves = np.array_split(starts, 2)
        return np.concatenate([sound_records(chunk, half) for half in halves])
    return np.ones(len(starts), np.bool_)


def integers(octets: npt.NDArray[np.uint8], positions: Positions, size: int) -> npt.NDArray[np.signedinteger]:
    """Return big-endian numbers of ``size`` bytes. Raises MalformedRecordError for a position beyond the bytes."""
    return _gather(octets, positions, f">i{size}", size)


def _gather(octets: npt.NDArray[np.uint8], positions: Positions, kind: str, size: int) -> npt.NDArray[Any]:
    # The items of this array overlap, one starts at each byte: picking items is several times as fast as picking rows.
    try:
        return np.ndarray((max(len(octets) - size + 1, 0),), kind, octets, strides=(1,))[positions]
    except IndexError as error:
        raise MalformedRecordError(f"a record's field lies beyond the {len(octets)} bytes given") from error


def _require(good: npt.NDArray[np.bool_], starts: Positions, problem: str) -> None:
    if not good.all():
        raise MalformedRecordError(f"the record at {starts[int(np.argmin(good))]} {problem}")

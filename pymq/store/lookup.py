"""Positions by time: binary search over the store timestamps of the records a queue points at."""

from __future__ import annotations

import struct

from pymq.errors import CorruptRecordError, NotFoundError, UnreadableError
from pymq.model import sysflag
from pymq.model.record import SYS_FLAG_AT
from pymq.store.commit_log import CommitLog
from pymq.store.consume_queue import ConsumeQueue
from pymq.store.windows import read_record

_I64 = struct.Struct(">q")
_I32 = struct.Struct(">i")


def record_store_ms(log: CommitLog, physical_offset: int) -> int:
    """Store timestamp of the record at a physical offset; -1 when no good record is there."""
    try:
        record = read_record(log, physical_offset)
    except (NotFoundError, CorruptRecordError, UnreadableError):
        return -1
    at = 68 if _I32.unpack_from(record, SYS_FLAG_AT)[0] & sysflag.BORN_HOST_V6 else 56
    return _I64.unpack_from(record, at)[0]  # type: ignore[no-any-return]


def offset_by_time(queue: ConsumeQueue, log: CommitLog, timestamp_ms: int, upper: bool) -> int:
    """Lower: the first offset with store time >= ``timestamp_ms``, the maximum when there is none.

    Upper: the last offset with store time <= ``timestamp_ms``, the minimum when there is none
    (Java: ConsumeQueue.getOffsetInQueueByTime).
    """
    low, high = queue.min_offset, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        store_ms = record_store_ms(log, queue.unit(middle)[0])
        if store_ms < timestamp_ms or (upper and store_ms == timestamp_ms):
            low = middle + 1
        else:
            high = middle
    return max(low - 1, queue.min_offset) if upper else low

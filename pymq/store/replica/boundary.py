"""Where a log can be truncated: at the begin of a record, or of a damaged place."""

from __future__ import annotations

from typing import NamedTuple

from pymq.errors import StoreError
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.log_record import Scanned, has_queue_unit
from pymq.store.scan.fast_scanner import scan_fast
from pymq.store.scan.scanner import End, find_later_record


class Boundary(NamedTuple):
    """A physical offset, the store time (ms) of the record before it, and the messages of queues from it on."""

    offset: int
    last_store_ms: int
    message_count: int


def find_boundary(log: CommitLog, end: int) -> Boundary:
    """The begin of the record or damaged place that holds ``end``, or ``end`` itself where a record ends.

    Raises StoreError before the log's begin, OSError.
    """
    end = min(end, log.max_offset)
    if end < log.min_offset:
        raise StoreError(
            f"the log begins at {log.min_offset}, it can't be truncated at {end}: start with an empty directory"
        )
    segment = log.find(max(end - 1, log.min_offset))
    at, last_ms = segment.start if segment is not None else end, 0
    while at < end:
        for part in scan_fast(log, at, check_crc=True, stop=end):
            if isinstance(part, End):
                at = part.offset
            else:
                last_ms = part.store_ms if isinstance(part, Scanned) else int(part.store_ms[-1])
        later = find_later_record(log, at, 0) if at < end else None
        if later is None or later.offset == at or later.offset >= end:
            break
        at = later.offset
    return Boundary(at, last_ms, _count_messages(log, at))


def _count_messages(log: CommitLog, start: int) -> int:
    count = 0
    while start < log.max_offset:
        for part in scan_fast(log, start, check_crc=False, stop=log.max_offset):
            if isinstance(part, End):
                start = part.offset
            elif isinstance(part, Scanned):
                count += has_queue_unit(part.sys_flag)
            else:
                count += sum(map(has_queue_unit, part.sys_flags.tolist()))
        later = find_later_record(log, start, 0)
        if later is None or later.offset <= start:
            break
        start = later.offset
    return count

"""Finds queue offsets by time: a binary search over the store timestamps of a queue's records."""

from __future__ import annotations

from pymq.store.integrity.checked_read import record_store_ms
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue.consume_queue import ConsumeQueue

_BAD_RECORDS_MAX = 64  # read in a row while searching for a good one


def offset_by_time(queue: ConsumeQueue, log: CommitLog, timestamp_ms: int, upper: bool) -> int:
    """The first offset with store time >= ``timestamp_ms``, the maximum when there is none.

    With ``upper``: the last offset with store time <= ``timestamp_ms``, the minimum when there is none
    (Java: ConsumeQueue.getOffsetInQueueByTime). A binary search. A unit without a good record has no time, so the next
    good one counts. A record whose time was damaged to a later one can only make the answer an earlier offset: no
    message is skipped.
    """
    low, high = queue.min_offset, queue.max_offset
    found = high
    while low < high:
        middle, store_ms = _next_known((low + high) // 2, high, queue, log)
        if middle < high and (store_ms < timestamp_ms or (upper and store_ms == timestamp_ms)):
            low = middle + 1
        else:
            found = middle if middle < high else found
            high = (low + high) // 2
    return max(found - 1, queue.min_offset) if upper else found


def _next_known(offset: int, end: int, queue: ConsumeQueue, log: CommitLog) -> tuple[int, int]:
    """(offset, store time) of the first unit from ``offset`` on that has a good record; ``end`` when there is none.

    After many bad records the last of them counts as old (-1), because a disk may fail for a whole segment.
    """
    store_ms = -1
    for tried in range(_BAD_RECORDS_MAX):
        offset = queue.skip_blank_units(offset + bool(tried), end)
        if offset == end:
            break
        store_ms = record_store_ms(log, queue.unit(offset)[0])
        if store_ms >= 0:
            break
    return offset, store_ms

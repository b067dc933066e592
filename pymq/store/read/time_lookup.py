"""Finds queue offsets by time: a binary search over the store timestamps of a queue's records."""

from __future__ import annotations

from itertools import pairwise

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

    Where store times go back, each part in which they ascend is searched.
    """
    low, high = queue.min_offset, queue.max_offset
    ends = [_first_behind(queue, step, low, high) for step in log.time_steps.offsets]
    parts = list(pairwise((low, *ends, high)))
    for begin, end in reversed(parts) if upper else parts:
        found = _search(queue, log, timestamp_ms, upper, begin, end)
        if upper and found > begin:
            return found - 1
        if not upper and found < end:
            return found
    return low if upper else high


def _first_behind(queue: ConsumeQueue, physical_offset: int, low: int, high: int) -> int:
    """The first offset whose record lies at a physical offset or behind it."""
    while low < high:
        middle = (low + high) // 2
        known = queue.skip_blank_units(middle, high)
        if known < high and queue.unit(known)[0] < physical_offset:
            low = known + 1
        else:
            high = middle
    return low


def _search(queue: ConsumeQueue, log: CommitLog, timestamp_ms: int, upper: bool, low: int, high: int) -> int:
    """The first offset from ``low`` on with a store time >= ``timestamp_ms``, with ``upper`` a later one."""
    found = high
    while low < high:
        middle, store_ms = _next_known((low + high) // 2, high, queue, log)
        if middle < high and (store_ms < timestamp_ms or (upper and store_ms == timestamp_ms)):
            low = middle + 1
        else:
            found = middle if middle < high else found
            high = (low + high) // 2
    return found


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

"""Settling: finds where a queue's units end, and tells whether a unit fits its record."""

from __future__ import annotations

from pymq.model.inner_batch import message_count
from pymq.model.layout import BLANK_UNIT_SIZE, PLACEHOLDER_CODE, RECORD_OVERHEAD_BYTES
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue.batch_queue import BatchUnits
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.first_page import filled_end
from pymq.store.scan.scanner import record_in

_BAD_UNITS_MAX = 1000  # at a queue's end; with more, its files are another queue's or destroyed


def settle(queue: ConsumeQueue, log: CommitLog, below: int, *, trusted: bool = False, deleted_end: int = 0) -> None:
    """Find the queue's end in its files: behind the last unit that points below ``below`` and fits its record.

    Units behind the end may be anything (zeros, torn sectors, remains of a truncated log), and are dropped. A binary
    search finds candidates, because all units are good whose records were on the disk at a checkpoint. Each candidate
    for the last unit is then compared with the log. Whether the units before it are good is not asked here:
    :func:`pymq.store.queue.queue_doubts.find_doubt` samples them, and a reader compares them.

    ``trusted``: PyMQ's checkpoint vouches for ``below``, so a unit may also stand for a record that is damaged by now,
    and no other message may get its offset. Units of records below ``deleted_end`` are remains of a deleted topic,
    unless newer units follow them: then the deletion had failed.
    """
    starts = queue.open_files()
    for start in reversed(starts):
        first = start // queue.unit_size_bytes
        end = filled_end(queue, start, queue.max_offset)
        last = _last_good(queue, log, first, end, (0, below), trusted=trusted)
        if last >= 0 and _is_below(queue, last, deleted_end):
            last = _last_good(queue, log, first, last, (deleted_end, below), trusted=trusted)
        if last >= 0:
            queue.end_with(last + 1, starts)
            if isinstance(queue, BatchUnits):
                _prove_end(queue, log)
            return
        queue.max_offset = first
    known_end = queue.known_end
    queue.reset()
    queue.known_end = known_end


def _prove_end(queue: BatchUnits, log: CommitLog) -> None:
    """Take the number of messages of the last unit from its record: the unit may be damaged."""
    place, size, _ = queue.unit(queue.max_offset - 1)
    segment = log.find(place) if size != BLANK_UNIT_SIZE else None
    record = record_in(segment, place) if segment is not None else None
    if record is not None and (record.topic, record.queue_id) == (queue.topic, queue.queue_id):
        queue.message_end = record.queue_offset + message_count(record.sys_flag, record.properties)


def _is_below(queue: ConsumeQueue, offset: int, physical_offset: int) -> bool:
    place, size, _ = queue.unit(offset)
    return place < physical_offset and size != BLANK_UNIT_SIZE


def _last_good(
    queue: ConsumeQueue, log: CommitLog, first: int, end: int, between: tuple[int, int], *, trusted: bool
) -> int:
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        physical_offset, size, _ = queue.unit(middle)
        if size > 0 and between[0] <= physical_offset < between[1]:
            low = middle + 1
        else:
            high = middle
    last = low - 1
    first = max(first, last - _BAD_UNITS_MAX)
    while last >= first and not unit_fits(queue, last, log) and not (trusted and stands_for_damage(queue, last, log)):
        last -= 1
    return last if last >= first else -1


def stands_for_damage(queue: ConsumeQueue, offset: int, log: CommitLog) -> bool:
    """True when the unit follows the one before it, and its record is unreadable or differs in one field only.

    A flipped bit can change a record's topic, queue id or queue offset, because no CRC covers them.
    """
    physical_offset, size, _ = queue.unit(offset)
    if offset > queue.base_offset:
        before, before_size, _ = queue.unit(offset - 1)
        if before_size != BLANK_UNIT_SIZE and before + before_size > physical_offset:
            return False
    return leads_to_damage(queue, offset, physical_offset, size, log)


def leads_to_damage(queue: ConsumeQueue, offset: int, physical_offset: int, size: int, log: CommitLog) -> bool:
    """True when a unit's record is unreadable or differs from it in one field only."""
    segment = log.find(physical_offset)
    if segment is None or size < RECORD_OVERHEAD_BYTES:
        return False
    record = record_in(segment, physical_offset)
    if record is None:
        return True
    at = queue.offset_of(offset)
    same = (record.topic == queue.topic, record.queue_id == queue.queue_id, record.queue_offset == at)
    return record.size == size and sum(same) == 2


def unit_fits(queue: ConsumeQueue, offset: int, log: CommitLog) -> bool:
    """True for a blank or placeholder unit, and for one that points below the log or at its own record."""
    physical_offset, size, code = queue.unit(offset)
    if (size == BLANK_UNIT_SIZE and physical_offset == 0) or (code == PLACEHOLDER_CODE and size > 0):
        return True
    if size <= 0 or physical_offset < 0:
        return False
    if physical_offset < log.min_offset:
        return True
    segment = log.find(physical_offset)
    if segment is None:
        return False
    record = record_in(segment, physical_offset)
    return record is not None and (record.topic, record.queue_id, record.queue_offset, record.size) == (
        queue.topic, queue.queue_id, queue.offset_of(offset), size,
    )  # fmt: skip

"""Finds out at a start whether a queue's files can be true, without reading all of them.

Names and sizes show what is missing. A few units of each file are compared with their sums, or with the log. They show
a file that was exchanged, renamed or emptied. A single damaged unit may pass: a reader finds it (:mod:`unit_sums`).
"""

from __future__ import annotations

from zlib import crc32

from pymq.model.layout import BLANK_UNIT_SIZE, PLACEHOLDER_CODE, RECORD_OVERHEAD_BYTES
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.settling import stands_for_damage, unit_fits
from pymq.store.scan.scanner import record_in


def find_doubt(queue: ConsumeQueue, log: CommitLog, starts: list[int], short: list[int]) -> str | None:
    """What shows that a settled queue lacks units or has those of another one; None when nothing does.

    ``starts``: of its files, when they were opened; ``short``: of those that were shorter than a queue file. The newest
    may be, after a crash. Raises OSError.
    """
    name, size = f"{queue.topic} queue {queue.queue_id}", queue.file_size_bytes
    unit_size = queue.unit_size_bytes
    starts = [start for start in starts if queue.base_offset <= start // unit_size < queue.max_offset]
    if queue.max_offset < queue.known_end:
        return f"{name} ends at {queue.max_offset}, but had {queue.known_end} units"
    if not queue.max_offset:
        return None
    if not starts or queue.base_offset >= queue.max_offset:
        return f"files of {name} are missing"
    if set(short) & set(starts[:-1]):
        return f"a file of {name} is shorter than {size} bytes"
    if starts[0] % size:
        return f"{starts[0]} is not the name of a file of {name}, whose files have {size} bytes"
    base, base_size, code = queue.unit(queue.base_offset)
    is_real = base_size != BLANK_UNIT_SIZE and code != PLACEHOLDER_CODE
    if queue.base_offset and is_real and log.min_offset <= base < log.end_of_files:
        return f"{name} begins with the file at {starts[0]}, whose first message is not the oldest one"
    for start in starts:
        first = start // unit_size
        end = min(first + size // unit_size, queue.max_offset)
        if first < end and not _is_plausible(queue, log, first, end):
            return f"{queue.directory}/{start:020d} does not hold the units of {name}"
    queue.base_place = base if is_real else -1
    return None


def _is_plausible(queue: ConsumeQueue, log: CommitLog, first: int, end: int) -> bool:
    """True when first and last block of a file have their sums, or most of its samples lead to their records.

    A block that has its sum need not be compared again.
    """
    blocks = queue.sums.blocks
    for block in {blocks.at(first), blocks.at(end - 1)}:
        start, stop = blocks.bounds(block)
        stop = min(stop, end)
        found = crc32(queue.stored(start, stop))
        if queue.sums.of(block, start, stop) != found:
            break
        queue.sums.note_checked(block, start, stop, found)
    else:
        return True
    samples = {first, (first + end) // 2, end - 1}
    is_alone, follows_log = len(samples) == 1, _leads_into_log(queue, log, first - 1)
    fits = [_fits(queue, log, offset, is_alone=is_alone, follows_log=follows_log) for offset in samples]
    return 2 * sum(fits) >= len(samples)


def _leads_into_log(queue: ConsumeQueue, log: CommitLog, offset: int) -> bool:
    """True when the queue has this unit, and it leads to its own record in the log. Units behind it then do, too."""
    if offset < queue.base_offset:
        return False
    physical_offset, size, code = queue.unit(offset)
    if size == BLANK_UNIT_SIZE or code == PLACEHOLDER_CODE or physical_offset < log.min_offset:
        return False
    try:
        return unit_fits(queue, offset, log)
    except OSError:
        return False  # the disk can't read the record: that says nothing about its unit


def _fits(queue: ConsumeQueue, log: CommitLog, offset: int, *, is_alone: bool, follows_log: bool) -> bool:
    """True when a unit leads to its record, or to a place that can't be read.

    ``is_alone``: no other unit can tell whether it or its record is damaged, so one field may differ.
    ``follows_log``: a unit before it leads into the log, so it does not stand for a record from before the log's begin.
    """
    physical_offset, size, code = queue.unit(offset)
    is_real = size != BLANK_UNIT_SIZE and code != PLACEHOLDER_CODE
    if follows_log and is_real and physical_offset < log.min_offset:
        return False
    try:
        if unit_fits(queue, offset, log):
            return True
        segment = log.find(physical_offset) if size >= RECORD_OVERHEAD_BYTES else None
        is_readable = segment is None or record_in(segment, physical_offset) is not None
        return (is_alone or not is_readable) and stands_for_damage(queue, offset, log)
    except OSError:
        return True  # the disk can't read the record: that says nothing about its unit

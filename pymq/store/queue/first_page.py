"""Looks at no more than the first page of a queue's files, for the start of a store with tens of thousands of queues.

Most queues of such a store are short: the first page of the only file holds all units, and the rest is a hole.
"""

from __future__ import annotations

from zlib import crc32

from pymq.model.layout import BLANK_UNIT, PLACEHOLDER_CODE, UNIT, UNIT_SIZE_BYTES
from pymq.store.log.zeroing import PAGE_BYTES
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.unit_sums import BLOCK_UNITS

_ZEROS = bytes(PAGE_BYTES)


def take_first_page(queue: ConsumeQueue, *, is_listed: bool = False) -> bool:
    """Take the units up to ``known_end`` of a queue with one file, when its first page holds all and the sum fits.

    ``is_listed``: the caller knows that there is no other file. Leaves the queue as
    :mod:`pymq.store.lifecycle.queue_recovery` does without it. False when anything else is there: then nothing is
    taken, and the caller looks closely. Raises OSError.
    """
    end, sums = queue.known_end, queue.sums
    unit_size = queue.unit_size_bytes
    size = end * unit_size
    full_block = min(BLOCK_UNITS, queue.units_per_file)
    if not 0 < size <= PAGE_BYTES or end > full_block or sums.end != end:
        return False
    begin = queue.begin_of_first_file(PAGE_BYTES, is_alone=is_listed)
    if begin is None or begin.has_more or begin.size_bytes != queue.file_size_bytes:
        return False
    page = begin.data
    units = page[:size]
    found = crc32(units)
    # Not page.count(0): that takes 4 us for a page.
    if (sums.open_sum if end < full_block else sums.of(0, 0, end)) != found or page[size:] != _ZEROS[size : len(page)]:
        return False
    first, last = units[:UNIT_SIZE_BYTES], units[size - unit_size : size - unit_size + UNIT_SIZE_BYTES]
    if BLANK_UNIT in (first, last):
        return False
    queue.base_offset = queue.min_offset = 0
    queue.set_end(end)
    queue.last_physical_offset = UNIT.unpack(last)[0]
    place, _, code = UNIT.unpack(first)
    queue.base_place = -1 if code == PLACEHOLDER_CODE else place
    sums.note_checked(0, 0, end, found)
    return True


def filled_end(queue: ConsumeQueue, start: int, end: int) -> int:
    """The queue offset, at most ``end``, behind which the file at ``start`` holds zeros only, if its first page tells.

    A search for the last unit then reads no page of a hole. Raises OSError.
    """
    in_page = -(-PAGE_BYTES // queue.unit_size_bytes)
    first = start // queue.unit_size_bytes
    if end <= first + in_page or queue.file(start).next_data(PAGE_BYTES) is not None:
        return end
    return first + in_page

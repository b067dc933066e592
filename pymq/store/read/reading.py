"""The read path: from a queue offset to slices of the log (Java: DefaultMessageStore.getMessage)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pymq.errors import CorruptRecordError, UnreadableError
from pymq.model.layout import (
    BLANK_UNIT_SIZE,
    EXT_ADDRESS_MAX,
    MAGIC_V1,
    MAGIC_V2,
    PLACEHOLDER_CODE,
    RECORD_OVERHEAD_BYTES,
    RECORD_PLACE,
    UNIT,
    UNIT_SIZE_BYTES,
)
from pymq.model.record import MalformedRecordError
from pymq.store.log.commit_log import CommitLog, Segment
from pymq.store.log.doubts import Doubts
from pymq.store.queue.batch_queue import AnyQueue
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.read.prefilter_cache import STEP_COUNT
from pymq.store.read.windows import CHUNK_SHIFT, NO_WINDOW, Unit, WindowReader
from pymq.store.settings import StoreSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pymq.store.read.record_batch import RecordBatch

Accept = Callable[[memoryview], bool]
Packed = bytes | bytearray  # units as they are in the queue's file
MAGICS = (MAGIC_V1, MAGIC_V2)
PREFILTERED_FACTOR = 4  # a prefiltered unit costs a quarter, so a read with a prefilter covers four times as many
FIRST_COUNT = 256  # units that a read without a filter looks at before the rest
FILTER_STEP_COUNT = 256  # units filtered together: a read covers few more units than it returns


class RecordPrefilter(Protocol):
    """Tells of many records at once which ones are surely not accepted. Hashable; equal records get equal results."""

    def count(self, wanted: int, /) -> int:
        """The number of records to pass in one call, for a read that returns up to ``wanted``; 0 to pass none now."""

    def __call__(self, records: bytes | bytearray, edges: NDArray[np.int64], /) -> list[int]:
        """Return the numbers of the records that are left.

        ``records``: back to back; other bytes may follow. ``edges``: where each begins, and where the last one ends.
        """


class Pace(NamedTuple):
    """How long a filtered read may go on.

    ``is_over`` is asked after each step of up to ``step_count`` units; when it returns True, the read ends there.
    """

    step_count: int
    is_over: Callable[[], bool]


class GetStatus(Enum):
    """What a read found; the broker turns it into a response code (Java: GetMessageStatus)."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"


@dataclass(slots=True)
class GetResult:
    """``chunks`` joined are the records found, back to back. Valid until the log is truncated or a segment deleted."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    chunks: list[memoryview] = field(default_factory=list)
    count: int = 0
    size_bytes: int = 0
    suggest_slave: bool = False  # the reader is so far behind that a slave should serve it


def get_messages(
    queue: ConsumeQueue | None,
    windows: WindowReader,
    settings: StoreSettings,
    offset: int,
    count_max: int,
    bytes_max: int,
    tag_codes: frozenset[int] | None,
    accept: Accept | None,
    prefilter: RecordPrefilter | None,
    pace: Pace | None = None,
) -> GetResult:
    """Read messages from ``offset`` on. ``pace`` may end a filtered read early, after some units.

    Raises CorruptRecordError when the first record to return is damaged, UnreadableError when the disk can't read it.
    """
    if queue is None:
        return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
    low, high = queue.min_offset, queue.max_offset
    if high == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
    if offset < low:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
    if offset >= high:
        status = GetStatus.OFFSET_OVERFLOW_ONE if offset == high else GetStatus.OFFSET_OVERFLOW_BADLY
        return GetResult(status, high, low, high)
    filtered = tag_codes is not None or accept is not None
    limits = Limits(settings, windows.log, queue, offset, count_max, bytes_max)
    count = max(settings.filter_scan_bytes // UNIT_SIZE_BYTES, count_max) if filtered else limits.count
    if tag_codes is not None:
        prefilter = None  # tags leave out more units, and cost less
    units = queue.read(offset, count if prefilter is None else count * PREFILTERED_FACTOR)
    result = GetResult(GetStatus.NO_MATCHED_MESSAGE, offset, low, high)
    if len(units) < UNIT_SIZE_BYTES:
        per_file = settings.queue_file_size_bytes // UNIT_SIZE_BYTES
        result.status, result.next_offset = (
            GetStatus.OFFSET_FOUND_NULL,
            min(offset - offset % per_file + per_file, high),
        )
        return result
    if filtered:
        _collect_matching(
            result, queue, windows, limits, units, tag_codes, accept, prefilter, count * PREFILTERED_FACTOR, pace
        )
    elif len(units) <= FIRST_COUNT * UNIT_SIZE_BYTES:
        _collect(result, queue, windows, limits, units)
    elif _collect(result, queue, windows, limits, _units(units, 0, FIRST_COUNT)):
        # Large messages fill the answer before this: then the units of the others are not looked at.
        _collect(result, queue, windows, limits, units[FIRST_COUNT * UNIT_SIZE_BYTES :])
    if result.count:
        result.status = GetStatus.FOUND
    result.suggest_slave = limits.far_behind and result.count > 0
    return result


class Limits:
    """The limits of one read, smaller when it comes from the disk. They never exclude the first message."""

    __slots__ = ("count", "far_behind", "size_bytes")

    def __init__(
        self, settings: StoreSettings, log: CommitLog, queue: AnyQueue, offset: int, count_max: int, bytes_max: int
    ) -> None:
        count, size = settings.transfer_count_in_memory, settings.transfer_bytes_in_memory
        self.far_behind = False
        if settings.in_memory_bytes is not None and log.max_offset - queue.unit(offset)[0] > settings.in_memory_bytes:
            self.far_behind = True
            count, size = min(count, settings.transfer_count_on_disk), min(size, settings.transfer_bytes_on_disk)
        self.count = max(1, min(count, count_max))
        self.size_bytes = min(size, bytes_max)


def _collect(result: GetResult, queue: ConsumeQueue, windows: WindowReader, limits: Limits, packed: Packed) -> bool:
    """Collect the record of every unit, one slice for each run of adjacent records. Return True when all of them fit.

    The hot loop of every pull: local names, and as few calls as possible.
    """
    queue_id, bytes_max, head, kept = queue.queue_id, limits.size_bytes, RECORD_PLACE.unpack_from, windows.chunks.get
    units = list(UNIT.iter_unpack(packed))
    offset, count, total = result.next_offset, result.count, result.size_bytes
    behind = offset + len(units)
    data, start, end, doubts = NO_WINDOW
    run_from = run_to = 0  # the run of adjacent records not yet in the chunks
    try:
        for number, (physical_offset, size, _) in enumerate(units):
            if count and total + size > bytes_max:
                break
            if physical_offset < start or physical_offset + size > end:
                if run_to > run_from:
                    result.chunks.append(data[run_from - start : run_to - start])
                    run_from = run_to = 0
                data, start, end, doubts = kept(physical_offset >> CHUNK_SHIFT) or NO_WINDOW
                if physical_offset < start or physical_offset + size > end:
                    segment = segment_of(windows.log, physical_offset, size)
                    if segment is None:
                        start = end = 0
                        offset += 1
                        if not count:
                            result.status = GetStatus.MESSAGE_WAS_REMOVING
                        continue
                    data, start, end, doubts = windows.window(segment, units, number, bytes_max - total)
            real_size, magic, real_queue_id, real_offset, real_physical = head(data, physical_offset - start)
            if (
                real_offset != offset
                or real_size != size
                or real_physical != physical_offset
                or real_queue_id != queue_id
                or magic not in MAGICS
            ):
                if units[number][2] == PLACEHOLDER_CODE:
                    offset += 1
                    if not count:
                        result.status = GetStatus.MESSAGE_WAS_REMOVING
                    continue
                raise corrupt_error(queue, offset, physical_offset)
            if doubts is not None and is_damaged(data[physical_offset - start :][:size], doubts, queue, units[number]):
                raise corrupt_error(queue, offset, physical_offset)
            total += size
            offset += 1
            count += 1
            if physical_offset == run_to:
                run_to += size
            else:
                if run_to > run_from:
                    result.chunks.append(data[run_from - start : run_to - start])
                run_from, run_to = physical_offset, physical_offset + size
    except (CorruptRecordError, UnreadableError, struct.error) as error:
        # What lies before the damage is served; only a read that starts at it fails.
        if not count:
            raise refusal(windows.log, queue, offset, error) from None
    if run_to > run_from:
        result.chunks.append(data[run_from - start : run_to - start])
    result.next_offset, result.count, result.size_bytes = offset, count, total
    return offset == behind


def _collect_matching(
    result: GetResult,
    queue: ConsumeQueue,
    windows: WindowReader,
    limits: Limits,
    packed: Packed,
    tag_codes: frozenset[int] | None,
    accept: Accept | None,
    prefilter: RecordPrefilter | None,
    effort_max: int,
    pace: Pace | None,
) -> None:
    """Collect the records that a filter accepts. A unit that can't match costs no read of the log.

    ``effort_max``: the read ends there; a prefiltered unit counts 1, any other ``PREFILTERED_FACTOR``.
    """
    first, queue_id, head = result.next_offset, queue.queue_id, RECORD_PLACE.unpack_from
    data, start, end, doubts = NO_WINDOW
    looked_count = 0
    for offsets, units, numbers, batch, count, _ in _steps(
        first, windows, limits, packed, tag_codes, prefilter, effort_max, pace
    ):
        looked_count += count
        # Local names and few calls, as in _collect: a filter on properties sees every record of the queue.
        for number, (physical_offset, size, _) in enumerate(units):
            offset = offsets[number]
            if accept is None and result.count and _is_full(result, size, limits):
                result.next_offset = offset
                return
            try:
                if physical_offset < start or physical_offset + size > end:
                    segment = segment_of(windows.log, physical_offset, size)
                    if segment is None:
                        if not result.count:
                            result.status = GetStatus.MESSAGE_WAS_REMOVING
                        continue
                    if batch is not None:
                        data, start, end, doubts = batch.window(numbers[number])
                    else:
                        data, start, end, doubts = windows.window(segment, units, number, limits.size_bytes)
                at = physical_offset - start
                real_size, magic, real_queue_id, real_offset, real_physical = head(data, at)
                if (
                    real_offset != offset
                    or real_size != size
                    or real_physical != physical_offset
                    or real_queue_id != queue_id
                    or magic not in MAGICS
                ):
                    if units[number][2] == PLACEHOLDER_CODE:
                        if not result.count:
                            result.status = GetStatus.MESSAGE_WAS_REMOVING
                        continue
                    raise corrupt_error(queue, offset, physical_offset)
                record = data[at : at + size]
                if doubts is not None and is_damaged(record, doubts, queue, units[number]):
                    raise corrupt_error(queue, offset, physical_offset)
                if accept is not None and not accept(record):
                    continue
            except (CorruptRecordError, UnreadableError, MalformedRecordError, struct.error) as error:
                result.next_offset = offset
                if not result.count:
                    raise refusal(windows.log, queue, offset, error) from None
                return
            if result.count and _is_full(result, size, limits):
                result.next_offset = offset
                return
            result.chunks.append(record)
            result.count += 1
            result.size_bytes += size
    result.next_offset = first + looked_count


class _Step(NamedTuple):
    """Units to filter, and their queue offsets.

    ``batch``: the batch in which a prefilter left the records with these ``numbers``; None when it did not run.
    """

    offsets: Sequence[int]
    units: list[Unit]
    numbers: list[int]
    batch: RecordBatch | None
    looked_count: int
    effort: int


def _steps(
    first: int,
    windows: WindowReader,
    limits: Limits,
    packed: Packed,
    tag_codes: frozenset[int] | None,
    prefilter: RecordPrefilter | None,
    effort_max: int,
    pace: Pace | None,
) -> Iterator[_Step]:
    """The units from queue offset ``first`` on that may match, in steps."""
    begin = effort = 0
    step_count = FILTER_STEP_COUNT if pace is None else pace.step_count
    while begin * UNIT_SIZE_BYTES < len(packed) and effort < effort_max:
        step = None
        if prefilter is not None:
            step = _cached_step(first, windows, packed, begin, prefilter)
            step = step or _prefiltered_step(first, windows, packed, begin, limits, prefilter)
        if step is None:
            count = min(step_count, max(1, (effort_max - effort) // PREFILTERED_FACTOR))
            step = _plain_step(first, packed, begin, count, tag_codes)
        begin += step.looked_count
        effort += step.effort
        yield step
        if pace is not None and pace.is_over():
            return


def _plain_step(first: int, packed: Packed, begin: int, count: int, tag_codes: frozenset[int] | None) -> _Step:
    units = list(UNIT.iter_unpack(_units(packed, begin, count)))
    offsets: Sequence[int] = range(first + begin, first + begin + len(units))
    looked_count = len(units)
    if tag_codes is not None:
        offsets, units = _of_tags(offsets, units, tag_codes)
    return _Step(offsets, units, [], None, looked_count, looked_count * PREFILTERED_FACTOR)


def _of_tags(offsets: Sequence[int], units: list[Unit], tag_codes: frozenset[int]) -> tuple[Sequence[int], list[Unit]]:
    """The units whose tags code is, or may be, one of these, and their queue offsets."""
    kept = [
        (offset, unit)
        for offset, unit in zip(offsets, units, strict=False)
        if unit[2] <= EXT_ADDRESS_MAX or _as_int32(unit[2]) in tag_codes
    ]
    return [offset for offset, _ in kept], [unit for _, unit in kept]


def _prefiltered_step(
    first: int, windows: WindowReader, packed: Packed, begin: int, limits: Limits, prefilter: RecordPrefilter
) -> _Step | None:
    """The units that a prefilter leaves of the next ones; None when these must be filtered one by one.

    As with tags, the record of a unit that is left out is not checked further.
    """
    from pymq.store.read.record_batch import read_record_batch  # noqa: PLC0415 - it needs numpy

    wanted = prefilter.count(limits.count)
    if not wanted:
        return None
    to_border = STEP_COUNT - (first + begin) % STEP_COUNT
    step = _units(packed, begin, min(wanted, to_border))
    try:
        batch = read_record_batch(windows, step, limits.size_bytes)
    except (CorruptRecordError, UnreadableError, struct.error):
        return None
    if batch is None:
        return None
    count = len(batch.edges) - 1
    numbers = prefilter(batch.records, batch.edges)
    windows.prefilter_cache.note(prefilter, _units(step, 0, count), numbers)
    offsets, units = _left(first + begin, step, numbers)
    return _Step(offsets, units, numbers, batch, count, count)


def _cached_step(
    first: int, windows: WindowReader, packed: Packed, begin: int, prefilter: RecordPrefilter
) -> _Step | None:
    """The units that the prefilter left of the next ones before; None when that is not cached."""
    found = windows.prefilter_cache.find(prefilter, packed, begin)
    if found is None:
        return None
    offsets, units = _left(first + begin, _units(packed, begin, found.looked_count), found.numbers)
    return _Step(offsets, units, [], None, found.looked_count, len(units) * PREFILTERED_FACTOR)


def _left(first: int, packed: Packed, numbers: Sequence[int]) -> tuple[list[int], list[Unit]]:
    """The queue offsets and the units of these numbers."""
    return [first + number for number in numbers], [
        UNIT.unpack_from(packed, number * UNIT_SIZE_BYTES) for number in numbers
    ]


def _units(packed: Packed, begin: int, count: int) -> Packed:
    return packed[begin * UNIT_SIZE_BYTES : (begin + count) * UNIT_SIZE_BYTES]


def _is_full(result: GetResult, size: int, limits: Limits) -> bool:
    return result.size_bytes + size > limits.size_bytes or result.count >= limits.count


def is_damaged(record: memoryview, doubts: Doubts, queue: AnyQueue, unit: Unit) -> bool:
    return len(record) < unit[1] or doubts.refuse(record, unit[0], queue.topic)


def refusal(log: CommitLog, queue: AnyQueue, offset: int, error: Exception) -> Exception:
    """The error for a read that begins at an unreadable or damaged message."""
    if isinstance(error, UnreadableError):
        return error
    corrupt = corrupt_error(queue, offset, queue.unit(offset)[0])
    log.on_corrupt(corrupt)
    return corrupt


def segment_of(log: CommitLog, physical_offset: int, size: int) -> Segment | None:
    """The segment that a unit points into; None for a blank unit, and for a record that was deleted with its segment.

    Raises CorruptRecordError for a unit that points behind the log, or is too small for any record.
    """
    if size == BLANK_UNIT_SIZE or physical_offset < log.min_offset:
        return None
    if size < RECORD_OVERHEAD_BYTES:
        raise CorruptRecordError(physical_offset, "a consume queue unit is shorter than any record")
    segment = log.find(physical_offset)
    if segment is None:
        raise CorruptRecordError(physical_offset, "a consume queue unit points behind the log")
    return segment


def may_match(code: int, tag_codes: frozenset[int]) -> bool:
    """True when a unit's tags code is, or may be, one of these."""
    return code <= EXT_ADDRESS_MAX or _as_int32(code) in tag_codes


def _as_int32(value: int) -> int:
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def corrupt_error(queue: AnyQueue, offset: int, physical_offset: int) -> CorruptRecordError:
    return CorruptRecordError(
        physical_offset,
        f"{queue.topic} queue {queue.queue_id} offset {offset} is corrupt at {physical_offset} in the commit log: "
        f"go on at offset {offset + 1} to read what is behind it",
    )

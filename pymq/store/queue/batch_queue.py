"""BatchQueue: a queue of a topic with ``queue.type=BatchCQ``, whose records may be inner batches of many messages.

A record has one unit of 46 bytes, however many messages it holds, so units have numbers and messages have offsets. The
files, their sums, recovery and retention work with numbers, as for any queue: :class:`BatchUnits` is a ConsumeQueue of
larger units. Writers and readers work with offsets: :class:`BatchQueue` turns one into the other. The first 20 bytes of
a unit are those of a consume queue unit.
"""

from __future__ import annotations

from typing import ClassVar

from pymq.model.inner_batch import message_count
from pymq.model.layout import (
    BATCH_UNIT,
    BATCH_UNIT_PLACE,
    BATCH_UNIT_RANGE,
    BATCH_UNIT_SIZE_BYTES,
    BLANK_UNIT_SIZE,
    INNER_COUNT_MAX,
    NOT_COMPACTED,
    UNIT,
    UNIT_SIZE_BYTES,
)
from pymq.store.log.log_record import Scanned
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.queue_files import QueueFiles

_HINTS_MAX = 256  # offsets at which reads ended: the next reads begin there
_UNKNOWN = -1


class BatchUnits(ConsumeQueue):
    """The units of a batch queue. All offsets of the base class are numbers of units here."""

    __slots__ = ("_hints", "_message_end", "known_message_end")

    unit_size_bytes: ClassVar[int] = BATCH_UNIT_SIZE_BYTES

    def __init__(self, files: QueueFiles, topic: str, queue_id: int) -> None:
        super().__init__(files, topic, queue_id)
        self._message_end = _UNKNOWN
        self._hints: dict[int, int] = {}  # the number of the unit that holds an offset
        self.known_message_end = 0  # as known_end, of messages

    @staticmethod
    def packed_unit(record: Scanned, tags_code: int) -> bytes:
        return BATCH_UNIT.pack(
            record.offset, record.size, tags_code, record.store_ms, record.queue_offset,
            message_count(record.sys_flag, record.properties), NOT_COMPACTED, 0,
        )  # fmt: skip

    def append_record(self, record: Scanned, tags_code: int) -> None:
        self.append_units(self.packed_unit(record, tags_code))

    def publish(self, units: bytes) -> None:
        self.tail += units
        self.next_offset = self.max_offset = self.max_offset + len(units) // BATCH_UNIT_SIZE_BYTES
        newest = BATCH_UNIT_PLACE.unpack_from(units, len(units) - BATCH_UNIT_SIZE_BYTES)
        self.last_physical_offset, first, count = newest
        self._message_end = first + count

    def set_end(self, offset: int) -> None:
        super().set_end(offset)
        self._message_end = _UNKNOWN
        self._hints.clear()

    # -- numbers and offsets ------------------------------------------------------------------------------------

    @property
    def message_end(self) -> int:
        """The queue offset behind the newest message. Raises OSError."""
        if self._message_end == _UNKNOWN:
            self._message_end = sum(self._range(self.max_offset - 1)) if self.max_offset > self.base_offset else 0
        return self._message_end

    @message_end.setter
    def message_end(self, offset: int) -> None:
        self._message_end = offset

    def _range(self, number: int) -> tuple[int, int]:
        """The first offset of a unit, and how many it has; zeros when there is no such unit."""
        raw = self.read(number, 1)
        return BATCH_UNIT_RANGE.unpack(raw) if len(raw) == BATCH_UNIT_SIZE_BYTES else (0, 0)

    def offset_of(self, number: int) -> int:
        """The first queue offset of a unit; of the number behind the last one, the queue's end. Raises OSError."""
        return self._range(number)[0] if number < self.max_offset else self.message_end

    def number_of(self, offset: int) -> int:
        """The number of the first unit that holds ``offset`` or a later one. A binary search. Raises OSError."""
        low, high = self.min_offset, self.max_offset
        hint = self._hints.get(offset, _UNKNOWN)
        if low <= hint < high:
            return hint
        while low < high:
            middle = (low + high) // 2
            if sum(self._range(middle)) <= offset:
                low = middle + 1
            else:
                high = middle
        return low

    def note_read(self, offset: int, number: int) -> None:
        """Remember that the unit ``number`` begins with ``offset``, where a reader goes on."""
        if len(self._hints) >= _HINTS_MAX:
            self._hints.clear()
        self._hints[offset] = number


class BatchQueue:
    """Offsets ``min_offset`` to ``max_offset`` (exclusive). Offsets count messages.

    It has the members of a ConsumeQueue that writers, dispatchers and readers use. What works on files gets
    :attr:`units`.
    """

    __slots__ = (
        "_begin",
        "magic",
        "overhead_bytes",
        "pending_count",
        "queue_id",
        "staged",
        "topic",
        "topic_part",
        "units",
    )

    holds_batches: ClassVar[bool] = True

    def __init__(self, files: QueueFiles, topic: str, queue_id: int) -> None:
        self.units = units = BatchUnits(files, topic, queue_id)
        self.topic = topic
        self.queue_id = queue_id
        self.topic_part, self.magic, self.overhead_bytes = units.topic_part, units.magic, units.overhead_bytes
        self.staged: list[bytes] = []  # units of the running commit
        self.pending_count = 0  # messages that have an offset and are not visible
        self._begin = (_UNKNOWN, 0)  # the number of the first unit, and its offset

    # -- limits -------------------------------------------------------------------------------------------------

    @property
    def min_offset(self) -> int:
        number = self.units.min_offset
        if number >= self.units.max_offset:
            return self.units.message_end
        if self._begin[0] != number:
            self._begin = number, self.units.offset_of(number)
        return self._begin[1]

    @property
    def max_offset(self) -> int:
        return self.units.message_end

    @property
    def next_offset(self) -> int:
        return self.units.message_end + self.pending_count

    @property
    def last_physical_offset(self) -> int:
        return self.units.last_physical_offset

    @property
    def tail(self) -> bytearray:
        return self.units.tail

    def tail_from(self, offset: int) -> bytes:
        """The units of messages from ``offset`` on that are not yet in a file."""
        return self.units.tail_from(self.units.number_of(offset))

    # -- appending ----------------------------------------------------------------------------------------------

    def stage(self, physical_offset: int, size: int, tags_code: int, store_ms: int, offset: int, count: int) -> None:
        """Add the unit of a staged record with ``count`` messages. They have the offsets from :attr:`next_offset` on,
        which is ``offset``.
        """
        self.staged.append(BATCH_UNIT.pack(physical_offset, size, tags_code, store_ms, offset, count, NOT_COMPACTED, 0))
        self.pending_count += count

    def take_staged(self) -> bytes:
        """Return the staged units, whose records are in the log now; :meth:`publish` makes them visible."""
        units, self.staged = b"".join(self.staged), []
        return units

    def publish(self, units: bytes) -> None:
        """Make units visible, in the order they were taken."""
        own = self.units
        before = own.message_end
        own.publish(units)
        self.pending_count -= own.message_end - before

    def drop_staged(self) -> None:
        self.pending_count -= sum(BATCH_UNIT_RANGE.unpack(unit)[1] for unit in self.staged)
        self.staged = []

    def append_record(self, record: Scanned, tags_code: int) -> None:
        """Add the visible unit of a record at the end, for recovery and followers."""
        self.units.append_record(record, tags_code)
        self.pending_count = 0

    def start_at(self, offset: int) -> None:
        """Let an empty queue begin at ``offset``."""
        self.skip_to(offset)

    def skip_to(self, offset: int) -> None:
        """Leave out the offsets up to ``offset``, for records that are lost: later messages keep their offsets."""
        self.units.message_end = offset
        self.pending_count = 0

    def lose_to(self, offset: int) -> None:
        """Add blank units for the offsets up to ``offset``, whose records are lost: the files say where it ends."""
        newest = self.units.last_physical_offset
        before = self.units.read(self.units.max_offset - 1, 1) if self.units.max_offset else b""
        store_ms = BATCH_UNIT.unpack(before)[3] if len(before) == BATCH_UNIT_SIZE_BYTES else 0
        while (first := self.max_offset) < offset:
            count = min(offset - first, INNER_COUNT_MAX)
            self.units.append_units(BATCH_UNIT.pack(0, BLANK_UNIT_SIZE, 0, store_ms, first, count, NOT_COMPACTED, 0))
        self.units.last_physical_offset, self.pending_count = newest, 0

    def reset(self) -> None:
        """Drop all units. The queue begins at offset 0 again, unless :meth:`start_at` follows."""
        self.units.reset()
        self.pending_count, self._begin = 0, (_UNKNOWN, 0)

    @staticmethod
    def listed(units: bytes) -> bytes:
        """The units as a consume queue has them: one of 20 bytes for each message."""
        return b"".join(
            [
                units[at : at + UNIT_SIZE_BYTES] * BATCH_UNIT_RANGE.unpack_from(units, at)[1]
                for at in range(0, len(units), BATCH_UNIT_SIZE_BYTES)
            ]
        )

    # -- reading ------------------------------------------------------------------------------------------------

    def unit(self, offset: int) -> tuple[int, int, int]:
        """(physical offset, size, tags code) of the record with one message; (-1, 0, 0) when there is none."""
        raw = self.units.read(self.units.number_of(offset), 1)
        if len(raw) != BATCH_UNIT_SIZE_BYTES or offset < BATCH_UNIT_RANGE.unpack(raw)[0]:
            return -1, 0, 0
        return UNIT.unpack_from(raw)

    def offset_of(self, number: int) -> int:
        """See :meth:`BatchUnits.offset_of`."""
        return self.units.offset_of(number)

    def physical_offset_from(self, offset: int) -> int:
        """Where the record of the first message from ``offset`` on begins; -1 when there is none. Raises OSError."""
        return self.units.physical_offset_from(self.units.number_of(offset))

    def count_from(self, physical_offset: int) -> int:
        """The number of visible messages whose records begin at ``physical_offset`` or later. Raises OSError."""
        units = self.units
        return units.message_end - units.offset_of(units.max_offset - units.count_from(physical_offset))


AnyQueue = ConsumeQueue | BatchQueue

"""Dispatches records of the log to their queues one by one (Java: CommitLogDispatcher), in recovery and on a slave.

A record names its queue and offset itself, and its CRC covers the body alone: a flipped bit in the head can name
another queue or offset. In an undamaged log the offsets of a queue have no gaps. A record that does not continue its
queue is therefore a suspect and left out, until the next record of its queue follows it and so proves it right.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING

from pymq.model import sysflag
from pymq.model.inner_batch import message_count
from pymq.model.layout import RECORD_OVERHEAD_BYTES
from pymq.model.names import REPAIR_TOPIC, topic_problem
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.log_record import Scanned, has_queue_unit, unit_tags_code
from pymq.store.queue.batch_queue import AnyQueue
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.placeholder_units import fill_lost, traps
from pymq.store.queue.queue_table import QueueTable
from pymq.store.settings import StoreSettings

if TYPE_CHECKING:
    from pymq.store.scan.columns import Records

OnGrown = Callable[[AnyQueue, int], None]  # units from this offset on are new
OnGap = Callable[[str], None]
OnDamage = Callable[[int, int, str], None]  # physical offsets of begin and end, and a sentence
Note = Callable[[str], None]


class QueueDispatcher:
    """Takes records in the order of the log. It passes over a record that its queue already has.

    ``on_gap`` is called for an offset that lies too far on, and may raise; ``on_damage`` for a record that is left out;
    ``note`` with other facts for an operator. Whatever :meth:`take` raises, the same records may be given again.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: QueueTable,
        settings: StoreSettings,
        *,
        on_grown: OnGrown,
        on_gap: OnGap,
        on_damage: OnDamage,
        note: Note,
    ) -> None:
        self._log = log
        self._queues = queues
        self._settings = settings
        self._on_grown = on_grown
        self._on_gap = on_gap
        self._on_damage = on_damage
        self._note = note
        self.unit_count = 0  # appended so far
        self.suspects: dict[tuple[str, int], Scanned] = {}
        self._unbegun: set[tuple[str, int]] = set()  # queues whose next record says where they go on
        self._damage_end = -1  # records before this physical offset are lost

    def note_damage(self, end: int) -> None:
        """Some records before the physical offset ``end`` can't be read: their queue offsets are lost."""
        self._damage_end = max(self._damage_end, end)

    def begin_again(self, kept: Set[ConsumeQueue] = frozenset()) -> None:
        """The log is taken from its begin on: what queues hold now, except ``kept``, are units of deleted records.

        Those may be damaged, so the first record of each queue says where the queue goes on.
        """
        if self._log.min_offset > 0:
            self._unbegun = {(queue.topic, queue.queue_id) for queue in self._queues.units() if queue not in kept}

    def take(self, record: Scanned) -> None:
        """Append the record's unit if its place in the queue can be true. Raises OSError."""
        if not has_queue_unit(record.sys_flag):
            if record.topic == REPAIR_TOPIC:
                self.note_damage(record.offset + record.size)  # it stands for lost records
            return
        if record.offset < self._queues.deleted_end(record.topic):
            return
        queue = self._queues.get(record.topic, record.queue_id)
        if queue is not None and record.sys_flag & sysflag.INNER_BATCH and not queue.holds_batches:
            queue = self._queues.make_batch_queue(record.topic, record.queue_id, self._log)
        expected = queue.max_offset if queue is not None else 0
        if queue is not None and (record.topic, record.queue_id) in self._unbegun and record.queue_offset >= 0:
            self._unbegun.discard((record.topic, record.queue_id))
            if record.queue_offset != expected:
                known_end = queue.units.known_end
                queue.reset()
                queue.units.known_end = known_end
                self._append(record, is_deleted_before=True)
                return
        if queue is not None and record.queue_offset == expected:
            self._append(record)
        elif topic_problem(record.topic) is not None or record.queue_id < 0 or record.queue_offset < 0:
            self._suspect(record, "has no legal topic or queue")
        elif record.queue_offset == expected:
            self._append(record)
        elif queue is not None and record.queue_offset < expected:
            if record.offset > queue.last_physical_offset:
                self._after_restart(queue, record)
        else:
            self._after_gap(record, queue)

    def take_many(self, records: Records) -> None:
        """Do as :meth:`take` for many records. Those that don't continue their queues go one by one, in order."""
        from pymq.store.dispatch.bulk_dispatch import append_units  # noqa: PLC0415 - it needs numpy

        if REPAIR_TOPIC in records.names:
            self.note_damage(records.end)
        appended = append_units(records, self._queues)
        self.unit_count += appended.unit_count
        for queue, first in appended.grown:
            self._unbegun.discard((queue.topic, queue.queue_id))
            self._on_grown(queue, first)
        for place in appended.left:
            self.take(records.at(place))

    def _append(self, *records: Scanned, is_deleted_before: bool = False) -> None:
        """Append units of records that follow each other. Offsets that the queue lacks before them are lost."""
        first = records[0]
        holds_batches = bool(first.sys_flag & sysflag.INNER_BATCH) or None
        queue = self._queues.make(first.topic, first.queue_id, holds_batches=holds_batches)
        begin = queue.max_offset
        if first.queue_offset > begin:
            segment_size_bytes = self._settings.segment_size_bytes
            is_new = queue.max_offset == queue.min_offset == 0
            if is_new and (is_deleted_before or not traps(queue, first.offset, segment_size_bytes)):
                queue.start_at(first.queue_offset)
                begin = first.queue_offset
            else:
                fill_lost(queue, first.queue_offset, first.offset, first.size, segment_size_bytes)
        for record in records:
            queue.append_record(record, unit_tags_code(record, self._settings))
        self.unit_count += len(records)
        self._on_grown(queue, begin)

    def _after_restart(self, queue: AnyQueue, record: Scanned) -> None:
        """The record's offset is taken: its topic was deleted and made again, or the record is damaged."""
        before = self.suspects.get((record.topic, record.queue_id))
        if before is not None and _follows(record, before):
            del self.suspects[record.topic, record.queue_id]
            self._note(f"{record.topic} queue {record.queue_id} starts again at {before.offset}")
            queue.reset()
            self._queues.sums_outdated = True
            self._append(before, record)
        else:
            self._suspect(record, f"repeats offset {record.queue_offset} of a queue that ends at {queue.max_offset}")

    def _after_gap(self, record: Scanned, queue: AnyQueue | None) -> None:
        """The record's offset is too far on: units were deleted by hand, records are gone, or it is damaged."""
        name = f"{record.topic} queue {record.queue_id}"
        expected, newest = (queue.max_offset, queue.last_physical_offset) if queue is not None else (0, -1)
        self._on_gap(f"{name} ends at {expected}, the log goes on at {record.queue_offset}")
        before = self.suspects.get((record.topic, record.queue_id))
        room = (record.offset - self._log.min_offset) // RECORD_OVERHEAD_BYTES
        if before is not None and expected <= before.queue_offset and _follows(record, before):
            del self.suspects[record.topic, record.queue_id]
            self._append(before, record)
        elif expected == 0 and (self._log.min_offset > 0 or self._queues.deleted_end(record.topic)):
            self._append(record, is_deleted_before=True)
        elif self._damage_end > newest and record.queue_offset - expected <= room:
            lost = f"{expected} to {record.queue_offset - 1}"
            self._note(f"{name} lacks offsets {lost}: their records are gone or damaged")
            self._append(record)
        else:
            self._suspect(record, f"says offset {record.queue_offset} of {name}, which ends at {expected}")

    def _suspect(self, record: Scanned, why: str) -> None:
        self.suspects[record.topic, record.queue_id] = record
        end = record.offset + record.size
        self.note_damage(end)
        self._on_damage(record.offset, end, f"the record at {record.offset} {why}: left out of the queue")


def _follows(record: Scanned, before: Scanned) -> bool:
    """True when the record's first queue offset is the one behind those of the record before it."""
    return record.queue_offset == before.queue_offset + message_count(before.sys_flag, before.properties)

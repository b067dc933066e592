"""Builds a repaired log's queues: units for its records, placeholder units for offsets whose records are lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pymq.model import sysflag
from pymq.model.inner_batch import message_count
from pymq.offline.log_files import LogFiles
from pymq.offline.log_walk import Block, walk
from pymq.offline.queue_check import QueueCheck
from pymq.store.disk.fs import Files
from pymq.store.log.log_record import Scanned, has_queue_unit, unit_tags_code
from pymq.store.queue.batch_queue import BatchQueue
from pymq.store.queue.batch_topics import load_batch_topics
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.placeholder_units import fill_lost
from pymq.store.queue.queue_table import BATCH_QUEUES, QueueTable
from pymq.store.settings import StoreSettings


@dataclass(slots=True)
class Rebuilt:
    """``lost`` holds ranges of offsets (end exclusive) by queue, ``left_out`` physical offsets of records in no
    queue."""

    unit_count: int = 0
    message_count: int = 0
    last_store_ms: int = 0
    lost: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=dict)
    left_out: list[int] = field(default_factory=list)


def rebuild_queues(log: LogFiles, check: QueueCheck, files: Files, root: str, settings: StoreSettings) -> Rebuilt:
    """Read the repaired log and write its queues below ``root``. Raises OSError."""
    target = root.rpartition("/")[0]
    table = QueueTable(
        files, root, settings.queue_file_size_bytes, settings.open_queue_files_max,
        batch_root=f"{target}/{BATCH_QUEUES}", batch_file_size_bytes=settings.batch_queue_file_size_bytes,
    )  # fmt: skip
    table.batch_topics = load_batch_topics(files, target)
    files.makedirs(root)
    builder = _Builder(table, check, settings)
    for step in walk(log):
        if isinstance(step, Block):
            builder.add(step.records)
    builder.finish()
    table.write_tails()
    table.sync()
    builder.result.unit_count = table.unit_count
    table.close()
    return builder.result


class _Builder:
    def __init__(self, table: QueueTable, check: QueueCheck, settings: StoreSettings) -> None:
        self._table = table
        self._check = check
        self._settings = settings
        self._limits = check.limits()
        self._batch_limits = check.batch_limits()
        self.result = Rebuilt()

    def add(self, records: Iterable[Scanned]) -> None:
        for record in records:
            self.result.last_store_ms = record.store_ms
            if has_queue_unit(record.sys_flag) and not self._is_not_its_own(record):
                holds_batches = bool(record.sys_flag & sysflag.INNER_BATCH) or None
                queue = self._table.make(record.topic, record.queue_id, holds_batches=holds_batches)
                if isinstance(queue, BatchQueue):
                    self._append_batch(queue, record)
                else:
                    self._append(queue, record)

    def _is_not_its_own(self, record: Scanned) -> bool:
        """True for a record of a deleted topic, even if a topic of the same name exists now."""
        limits = self._limits.get((record.topic, record.queue_id))
        if limits is None:
            return self._check.is_deleted(record.topic, record.offset)
        return record.offset < limits.from_offset

    def _append(self, queue: ConsumeQueue, record: Scanned) -> None:
        if record.queue_offset > queue.max_offset:
            if queue.max_offset == 0:
                limits = self._limits.get((record.topic, record.queue_id))
                start = record.queue_offset if limits is None else min(limits.start, record.queue_offset)
                self._lose(queue, start, record.queue_offset)
                queue.start_at(start)
            else:
                self._lose(queue, queue.max_offset, record.queue_offset)
            self._fill(queue, record.queue_offset, record.offset, record.size)
        elif record.queue_offset == 0 and queue.max_offset > 0:
            queue.reset()  # its topic was deleted and created again, and its files are lost
            self.result.lost.pop((queue.topic, queue.queue_id), None)
        elif record.queue_offset < queue.max_offset:
            self.result.left_out.append(record.offset)
            return
        queue.append(record.offset, record.size, unit_tags_code(record, self._settings))
        self.result.message_count += 1
        if len(queue.tail) >= self._settings.queue_tail_bytes:
            self._table.write_tail(queue)

    def _append_batch(self, queue: BatchQueue, record: Scanned) -> None:
        if record.queue_offset == 0 and queue.max_offset > 0:
            queue.reset()  # its topic was deleted and created again
        elif record.queue_offset < queue.max_offset:
            self.result.left_out.append(record.offset)
            return
        if record.queue_offset > queue.max_offset:
            start = queue.max_offset
            if not queue.units.max_offset:
                limits = self._batch_limits.get((queue.topic, queue.queue_id))
                start = record.queue_offset if limits is None else min(limits.start, record.queue_offset)
            self._lose_batches(queue, start, record.queue_offset)
        queue.append_record(record, unit_tags_code(record, self._settings))
        self.result.message_count += message_count(record.sys_flag, record.properties)
        if len(queue.tail) >= self._settings.queue_tail_bytes:
            self._table.write_tail(queue)

    def _plain(self, topic: str, queue_id: int) -> ConsumeQueue:
        queue = self._table.make(topic, queue_id, holds_batches=False)
        assert isinstance(queue, ConsumeQueue), "only plain queues are checked for their limits"
        return queue

    def finish(self) -> None:
        """End each queue where it ended before, even if its last records, or all, are lost."""
        self._finish_batches()
        for (topic, queue_id), limits in self._limits.items():
            if limits.end == 0:
                continue
            queue = self._plain(topic, queue_id)
            if queue.max_offset == 0:
                self._lose(queue, limits.start, limits.end)
                # At least one unit: with an empty file the queue would restart at 0.
                queue.start_at(limits.end - 1)
                queue.skip_to(limits.end)
            elif queue.max_offset < limits.end:
                self._lose(queue, queue.max_offset, limits.end)
                self._fill(queue, limits.end, *queue.unit(queue.max_offset - 1)[:2])
        for (topic, queue_id), end in self._check.known_ends.items():
            queue = self._plain(topic, queue_id)
            if queue.max_offset == 0 < end:
                queue.start_at(end - 1)  # its files are lost, and all its records are deleted
                queue.skip_to(end)
            elif queue.max_offset < end:
                self._lose(queue, queue.max_offset, end)
                self._fill(queue, end, *queue.unit(queue.max_offset - 1)[:2])

    def _finish_batches(self) -> None:
        for (topic, queue_id), limits in self._batch_limits.items():
            queue = self._table.make(topic, queue_id, holds_batches=True)
            if not isinstance(queue, BatchQueue) or queue.max_offset >= limits.end:
                continue
            if not queue.units.max_offset and limits.start == limits.end:
                queue.start_at(limits.end - 1)  # its messages are deleted: a unit shows where it ends
                queue.lose_to(limits.end)
            else:
                self._lose_batches(queue, queue.max_offset if queue.units.max_offset else limits.start, limits.end)

    def _lose_batches(self, queue: BatchQueue, start: int, end: int) -> None:
        """Let the queue go on at ``end``, and report the messages from ``start`` on that had a record before."""
        if not queue.units.max_offset:
            queue.start_at(start)
        queue.lose_to(end)
        limits = self._batch_limits.get((queue.topic, queue.queue_id))
        for blank in [*(limits.blanks if limits is not None else []), range(end, end)]:
            if start < blank.start:
                self.result.lost.setdefault((queue.topic, queue.queue_id), []).append((start, min(blank.start, end)))
            start = max(start, blank.stop)
            if start >= end:
                break

    def _fill(self, queue: ConsumeQueue, end: int, physical_offset: int, size: int) -> None:
        fill_lost(queue, end, physical_offset, size, self._settings.segment_size_bytes)

    def _lose(self, queue: ConsumeQueue, start: int, end: int) -> None:
        if start >= end:
            return
        known = self._check.offsets_without_record(queue.topic, queue.queue_id, start, end)
        ranges = self.result.lost.setdefault((queue.topic, queue.queue_id), [])
        for offset in range(start, end):
            if offset in known:
                continue
            if ranges and ranges[-1][1] == offset:
                ranges[-1] = ranges[-1][0], offset + 1
            else:
                ranges.append((offset, offset + 1))

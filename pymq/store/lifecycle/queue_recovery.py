"""Finds at a start where the queues end and from where records have to be dispatched to them.

Queues are derived from the log. When the checkpoint does not vouch for them, all of them are made again from the log.
So is a queue whose files can't be what it vouches for: that queue alone, when the ends of all others are known.
"""

from __future__ import annotations

from pymq.store.disk.checkpoint import Checkpoint
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue.batch_queue import BatchUnits
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.first_page import take_first_page
from pymq.store.queue.placeholder_units import fill_lost
from pymq.store.queue.queue_doubts import find_doubt
from pymq.store.queue.queue_table import QueueTable
from pymq.store.queue.settling import settle

_DOUBTS_NOTED_MAX = 20


class QueueRecovery:
    """The queues' part of one start. ``notes`` gets what an operator should know."""

    def __init__(self, log: CommitLog, queues: QueueTable, checkpoint: Checkpoint, notes: list[str]) -> None:
        self._log = log
        self._queues = queues
        self._checkpoint = checkpoint
        self._notes = notes
        self._doubted: set[ConsumeQueue] = set()
        self.kept: set[ConsumeQueue] = set()  # that hold their units while others are made again

    def start(self, *, clean: bool) -> int:
        """Find the end of every queue; return the physical offset from which on records have to be dispatched.

        Raises OSError.
        """
        log, queues, durable = self._log, self._queues, self._checkpoint.durable
        if not clean:
            # A killed process leaves bytes in the page cache that it did not sync.
            log.distrust(durable.log_offset if durable else log.min_offset)
        if durable is None:
            if len(queues):
                self._notes.append("the checkpoint is not PyMQ's or is lost: all queues are made again from the log")
            queues.forget_known()
            return self.rebuild()
        below = durable.log_offset if clean else min(durable.queue_offset, durable.log_offset)
        below = min(max(below, log.min_offset), log.end_of_files)
        saved = queues.saved
        if saved is not None and (saved.queue_offset > durable.queue_offset or not durable.queue_offset):
            queues.forget_known()
            saved = None
        is_exact = (
            saved is not None
            and (saved.queue_offset, saved.unit_count) == (durable.queue_offset, durable.unit_count)
            and durable.queue_offset <= below
        )
        doubts: list[str] = []
        for queue in queues.units():
            doubt = self._settle(queue, below, is_exact=is_exact, clean=clean)
            if doubt is not None:
                doubts.append(doubt)
                if not is_exact and 0 <= queue.last_physical_offset < log.min_offset:
                    queue.known_end = max(queue.known_end, queue.max_offset)  # no record in the log tells it
                self._doubted.add(queue)
        is_counted = clean or below == durable.queue_offset
        # A crash may come before the checkpoint that does not count a deleted topic.
        unit_count = durable.unit_count - (queues.deleted_unit_count if is_exact else 0)
        if not doubts and is_counted and queues.unit_count != unit_count:
            doubts.append(f"the queues hold {queues.unit_count} units, the checkpoint says {unit_count}")
        if not doubts:
            return durable.queue_offset if clean else below
        if is_exact and self._doubted:
            self._notes.extend(f"{doubt}: it is made again from the log" for doubt in doubts[:_DOUBTS_NOTED_MAX])
            self.kept = set(queues.units()) - self._doubted
            for queue in self._doubted:
                _drop_units(queue)
            return log.min_offset
        self._notes.extend(f"{doubt}: all queues are made again from the log" for doubt in doubts[:_DOUBTS_NOTED_MAX])
        return self.rebuild()

    def _settle(self, queue: ConsumeQueue, below: int, *, is_exact: bool, clean: bool) -> str | None:
        """Find the queue's end; return a reason to make the queue again, if there is one."""
        log = self._log
        # A directory is listed where a crash may have left newer files: that takes as long as all the rest.
        starts = None if clean and is_exact else queue.file_starts()
        if is_exact and starts in (None, [0]) and take_first_page(queue, is_listed=starts is not None):
            _take_known_end(queue)
            return None
        starts = queue.file_starts() if starts is None else starts
        queue.open_files(starts)
        short = queue.fit_sizes(starts)
        if not is_exact:
            settle(queue, log, below, trusted=True, deleted_end=self._queues.deleted_end(queue.topic))
        elif queue.known_end:
            queue.end_with(min(queue.known_end, queue.max_offset), starts)
            _take_known_end(queue)
        else:
            queue.reset()
        return find_doubt(queue, log, starts, short)

    def rebuild(self) -> int:
        """Drop every unit of a record that is still in the log; return the log's begin."""
        self.kept = set()
        for queue in self._queues.units():
            if queue in self._doubted:
                _drop_units(queue)
                continue
            queue.fit_sizes(queue.open_files())
            settle(queue, self._log, self._log.min_offset, deleted_end=self._queues.deleted_end(queue.topic))
        return self._log.min_offset

    def finish(self, segment_size_bytes: int) -> None:
        """Let no queue end before it ended at the checkpoint: offsets are not given twice, even if records are lost."""
        for batch_queue in self._queues.batch_queues():
            end, known_end = batch_queue.max_offset, batch_queue.units.known_message_end
            if end < known_end:
                batch_queue.skip_to(known_end)
                lost = f"lacks offsets {end} to {known_end - 1}: their records are deleted, lost or damaged"
                self._notes.append(f"{batch_queue.topic} queue {batch_queue.queue_id} {lost}")
        for queue in self._queues.plain_queues():
            end, known_end = queue.max_offset, queue.known_end
            if end >= known_end:
                continue
            name = f"{queue.topic} queue {queue.queue_id}"
            if end == 0:
                # At least one unit: with an empty file the queue would begin at 0 again.
                queue.start_at(known_end - 1)
                queue.skip_to(known_end)
                self._notes.append(f"{name} begins at {known_end}: its records are deleted or lost")
            else:
                physical_offset, size, _ = queue.unit(end - 1)
                fill_lost(queue, known_end, physical_offset, size, segment_size_bytes)
                self._notes.append(f"{name} lacks offsets {end} to {known_end - 1}: their records are gone or damaged")


def _drop_units(queue: ConsumeQueue) -> None:
    known_end = queue.known_end
    queue.reset()
    queue.known_end = known_end


def _take_known_end(queue: ConsumeQueue) -> None:
    """A batch queue that ends where it was saved has as many messages as then: its last unit may be damaged."""
    if isinstance(queue, BatchUnits) and queue.max_offset == queue.known_end:
        queue.message_end = queue.known_message_end

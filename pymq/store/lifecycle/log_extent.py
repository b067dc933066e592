"""Compares the log that a start finds with what is known of its extent: segments that were on the disk may be gone.

A crash takes the end of a log only as far as nothing vouches for it. A log that ends before that has lost files. If it
went on at its shorter end, offsets of lost messages would be given to new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pymq.errors import StoreError
from pymq.model.layout import BLANK_UNIT_SIZE
from pymq.store.disk.checkpoint import Checkpoint
from pymq.store.lifecycle.checkpointer import Checkpointer
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.opening import WAYS_OUT, lost_segments_text
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.queue_table import QueueTable

_WITNESSES_MIN = 2  # units that point beyond the log; a single one may have a flipped bit


class Vouched(NamedTuple):
    """A physical offset up to which the log was on the disk, and what says so."""

    end: int
    by: str


class Lost(NamedTuple):
    """What a start says of segments that are gone at the log's begin and at its end; None when there are none."""

    begin: str | None
    end: str | None


def check_extent(
    log: CommitLog,
    queues: QueueTable,
    checkpoints: Checkpointer,
    vouched: Vouched,
    *,
    clean: bool,
    is_replica: bool,
) -> Lost:
    """Compare a log whose files are open with what vouches for it: ``vouched``, and without it the queues.

    Raises StoreError when the log's end is lost, unless it ``is_replica``: then its master has it, and the checkpoint
    stops vouching for it. Raises OSError.
    """
    if not vouched.end and clean:
        vouched = _vouched_by_queues(queues, log)
    begin, end = _lost_begin(log, checkpoints.newest), log.end_of_files
    if vouched.end <= end:
        return Lost(begin, None)
    text = (
        f"the log ends at {end}, but by {vouched.by} it was on the disk up to {vouched.end}: "
        f"{lost_segments_text(end, vouched.end, log.segment_size_bytes)}"
    )
    if not is_replica:
        raise StoreError(f"{text}; {WAYS_OUT}")
    checkpoints.distrust_behind(end)
    return Lost(begin, f"{text}; this slave gets them from its master again")


def vouched_end(checkpoint: Checkpoint, root: str, ended_at: Callable[[], int], *, clean: bool) -> Vouched:
    """Return what checkpoint and epoch history say. ``ended_at``: the log's end at the last clean stop, 0 if unknown.

    The checkpoint's word counts alone if there is one: a repaired directory may be shorter than its epoch history says.
    """
    if checkpoint.durable is not None:
        return Vouched(checkpoint.durable.log_offset, f"{root}/checkpoint")
    return Vouched(ended_at() if clean else 0, f"{root}/config/epochHistory.json")


def _vouched_by_queues(queues: QueueTable, log: CommitLog) -> Vouched:
    """Return what the ends of the queues say, for a directory that PyMQ did not close."""
    ends = sorted(end for queue in queues.units() for end in _last_ends(queue) if end > log.end_of_files)
    # The second newest: the newest may be damaged.
    return Vouched(ends[-_WITNESSES_MIN] if len(ends) >= _WITNESSES_MIN else 0, "its queues")


def _last_ends(queue: ConsumeQueue) -> Iterable[int]:
    """Return where the records of a queue's last units end."""
    for start in reversed(queue.open_files()):
        first = start // queue.unit_size_bytes
        low, high = first, queue.max_offset
        while low < high:
            middle = (low + high) // 2
            if queue.unit(middle)[1] > 0:
                low = middle + 1
            else:
                high = middle
        if low > first:
            last = range(max(low - _WITNESSES_MIN, first), low)
            return [place + size for place, size, _ in map(queue.unit, last) if size != BLANK_UNIT_SIZE]
        queue.max_offset = first
    return []


def _lost_begin(log: CommitLog, checkpoint: Checkpoint) -> str | None:
    durable = checkpoint.durable
    if durable is None or not 0 <= durable.log_begin < min(log.min_offset, durable.log_offset):
        return None
    return (
        f"the log begins at {log.min_offset}, but nothing was deleted from {durable.log_begin} on: "
        f"{lost_segments_text(durable.log_begin, log.min_offset, log.segment_size_bytes)}; to read their messages, "
        f"stop the broker, put the files back, and delete consumequeue/, index/ and checkpoint"
    )

"""Finds at a start what the files of light queues hold, and from where their entries have to be made again."""

from __future__ import annotations

from collections.abc import Iterator

from pymq.model.lite_topics import LIGHT_QUEUE_PREFIX
from pymq.store.disk.checkpoint import LIGHT_COUNT_UNKNOWN, Checkpoint
from pymq.store.light.light_queues import LightQueues
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.log_record import Scanned, parse_record


def notes_of_ignored(names: list[str]) -> Iterator[str]:
    """Yield a note for each directory among queues that is none, and one for all of RocketMQ's light queues."""
    light_count = 0
    for name in names:
        if name.rpartition("/")[2].startswith(LIGHT_QUEUE_PREFIX):
            light_count += 1
        else:
            yield f"{name} is no legal topic name: left alone"
    if light_count:
        yield f"{light_count} light queues are RocketMQ's: left alone, the log has their messages"


def load_lights(lights: LightQueues, log: CommitLog, checkpoint: Checkpoint, notes: list[str]) -> int:
    """Load the light queues; return the physical offset from which records have to be dispatched to them.

    That is the log's begin when the files lack an entry that the checkpoint counts. Raises OSError.
    """
    durable = checkpoint.durable
    if durable is None:
        lights.reset()
        return log.min_offset
    if durable.light_count == LIGHT_COUNT_UNKNOWN:
        notes.append("light queues are made again from the log")
        lights.reset()
        return log.min_offset
    log_end = min(durable.log_offset, log.end_of_files)
    limit = max(min(durable.queue_offset, log_end), log.min_offset)

    def read_record(offset: int, size: int) -> Scanned | None:
        return parse_record(log.read(offset, size), 0, offset, False) if offset + size <= log_end else None

    count = lights.load(limit, log.min_offset, log_end, read_record)
    if count >= durable.light_count:
        return lights.covered
    expected = durable.light_count
    notes.append(f"light queues have {count} entries, the checkpoint says {expected}: they are made again from the log")
    lights.reset()
    return log.min_offset

"""Queues made from the log itself, where a store's consume queues don't have its records yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymq.model import sysflag
from pymq.model.inner_batch import message_count
from pymq.offline.bulk_walk import walk_bulk
from pymq.offline.log_files import LogFiles
from pymq.offline.log_walk import Block, Damaged, LogEnd
from pymq.store.scan.columns import Records

Int64s = NDArray[np.int64]
QueueKey = tuple[str, int]
"""A topic and a queue's number."""


class QueueRecords(NamedTuple):
    """Records of one queue in order: first queue offset, number of messages, physical offset, size, and tags code.

    ``tags_codes`` is None where they are not known.
    """

    offsets: Int64s
    counts: Int64s
    places: Int64s
    sizes: Int64s
    tags_codes: Int64s | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def end(self) -> int:
        """The offset behind the last message."""
        return int(self.offsets[-1] + self.counts[-1]) if len(self.offsets) else 0

    def followed_by(self, others: QueueRecords) -> QueueRecords:
        """Return these records and the records after them; tags codes that only some records have are left out."""
        return QueueRecords(
            np.concatenate((self.offsets, others.offsets)),
            np.concatenate((self.counts, others.counts)),
            np.concatenate((self.places, others.places)),
            np.concatenate((self.sizes, others.sizes)),
        )

    def part(self, which: slice | NDArray[Any]) -> QueueRecords:
        """Return some of the records."""
        codes = None if self.tags_codes is None else self.tags_codes[which]
        return QueueRecords(self.offsets[which], self.counts[which], self.places[which], self.sizes[which], codes)


class WalkedLog(NamedTuple):
    """The queues of all records from a place in the log on, and what the walk found on its way."""

    queues: dict[QueueKey, QueueRecords]
    damaged: list[Damaged]
    end: LogEnd


def walk_queues(log: LogFiles, start: int, deleted_ends: Mapping[str, int]) -> WalkedLog:
    """Walk the log from ``start`` on and return what a broker's queues would get. Raises OSError.

    ``deleted_ends`` has the physical offsets below which the records of deleted topics don't count.
    """
    numbers: dict[str, int] = {}
    parts: list[NDArray[np.int64]] = []
    damaged: list[Damaged] = []
    end = LogEnd(start, None, "there is no log")
    for step in walk_bulk(log, start):
        if isinstance(step, Records):
            parts.append(_of_columns(step, numbers))
        elif isinstance(step, Block):
            parts.append(_of_block(step, numbers))
        elif isinstance(step, Damaged):
            damaged.append(step)
        else:
            end = step
    table = np.concatenate(parts, axis=1) if parts else np.empty((7, 0), np.int64)
    return WalkedLog(_by_queue(table, list(numbers), deleted_ends), damaged, end)


def _of_columns(records: Records, numbers: dict[str, int]) -> NDArray[np.int64]:
    own = np.array([numbers.setdefault(name, len(numbers)) for name in records.names], np.int64)
    counts = np.ones(len(records), np.int64)
    for place in np.flatnonzero(records.sys_flags & sysflag.INNER_BATCH).tolist():
        counts[place] = message_count(int(records.sys_flags[place]), records.properties[place])
    return np.stack(
        (
            own[records.topics],
            records.queue_ids,
            records.queue_offsets,
            counts,
            records.offsets,
            records.sizes,
            records.sys_flags,
        )
    ).astype(np.int64)


def _of_block(block: Block, numbers: dict[str, int]) -> NDArray[np.int64]:
    rows = [
        (
            numbers.setdefault(record.topic, len(numbers)),
            record.queue_id,
            record.queue_offset,
            message_count(record.sys_flag, record.properties),
            record.offset,
            record.size,
            record.sys_flag,
        )
        for record in block.records
    ]
    return np.array(rows, np.int64).T


def _by_queue(
    table: NDArray[np.int64], names: list[str], deleted_ends: Mapping[str, int]
) -> dict[QueueKey, QueueRecords]:
    topics, queue_ids, offsets, counts, places, sizes, flags = table
    # Half messages and rollbacks have no unit.
    kind = flags & sysflag.TRANSACTION_MASK
    kept = (kind == sysflag.TRANSACTION_NONE) | (kind == sysflag.TRANSACTION_COMMIT)
    ends = np.array([deleted_ends.get(name, 0) for name in names], np.int64)
    if ends.any():
        kept &= places >= ends[topics]
    order = np.flatnonzero(kept)
    order = order[np.lexsort((queue_ids[order], topics[order]))]
    found: dict[QueueKey, QueueRecords] = {}
    if not len(order):
        return found
    changes = np.flatnonzero((np.diff(topics[order]) != 0) | (np.diff(queue_ids[order]) != 0)) + 1
    for rows in np.split(order, changes):
        own = offsets[rows]
        # As a broker does: what a queue has already is not added again.
        before = np.maximum.accumulate(np.concatenate(([-1], (own + counts[rows])[:-1])))
        new = rows[own >= before]
        key = names[int(topics[new[0]])], int(queue_ids[new[0]])
        found[key] = QueueRecords(offsets[new], counts[new], places[new], sizes[new])
    return found

"""Dispatches thousands of records at once with numpy: makes their queue units and index keys."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymq.model import sysflag
from pymq.model.javahash import tags_code
from pymq.model.layout import NO_UNIT_FLAG, UNIT_SIZE_BYTES
from pymq.model.layout_dtypes import UNITS
from pymq.model.names import topic_problem
from pymq.store.index.bulk_keys import Properties, key_columns, templated_keys
from pymq.store.index.key_hash import topic_hash
from pymq.store.index.keyed_records import KeyColumns
from pymq.store.queue.batch_queue import AnyQueue
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.queue_table import QueueTable
from pymq.store.scan.columns import Records
from pymq.store.settings import is_schedule_topic


class Appended(NamedTuple):
    """What :func:`append_units` did.

    ``grown``: the queues that got units, with their first new offset. ``left``: the numbers, ascending, of the records
    that have to be dispatched one by one.
    """

    grown: list[tuple[ConsumeQueue, int]]
    unit_count: int
    left: list[int]


def append_units(records: Records, queues: QueueTable) -> Appended:
    """Append the units of the records that continue their queues. Records that their queues have are passed over."""
    wanted = np.flatnonzero(records.sys_flags & NO_UNIT_FLAG == 0)
    if not len(wanted):
        return Appended([], 0, [])
    if len(records.names) == 1:
        order = wanted[np.argsort(_sortable(records.queue_ids)[wanted], kind="stable")]
    else:
        order = wanted[np.lexsort((records.queue_ids[wanted], records.topics[wanted]))]
    topics, queue_ids, queue_offsets = records.topics[order], records.queue_ids[order], records.queue_offsets[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (topics[1:] != topics[:-1]) | (queue_ids[1:] != queue_ids[:-1])
    starts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    follows = queue_offsets - queue_offsets[starts][group] == np.arange(len(order)) - starts[group]
    follows &= records.sys_flags[order] & sysflag.INNER_BATCH == 0
    dense = np.logical_and.reduceat(follows, starts).tolist()
    units = packed_units(records)[order].tobytes()
    grown: list[tuple[ConsumeQueue, int]] = []
    left: list[int] = []
    passed_count = 0
    bounds = [*starts.tolist(), len(order)]
    heads = zip(topics[starts].tolist(), queue_ids[starts].tolist(), queue_offsets[starts].tolist(), strict=True)
    for number, (topic, queue_id, queue_offset) in enumerate(heads):
        start, stop = bounds[number], bounds[number + 1]
        queue = _queue_at(queues, records.names[topic], queue_id, queue_offset) if dense[number] else None
        if queue is None and dense[number]:
            known = queues.get(records.names[topic], queue_id)
            newest = int(records.offsets[order[stop - 1]])
            if known is not None and _has_units(known, queue_offset, stop - start, newest):
                passed_count += stop - start
                continue
        if queue is None:
            left += order[start:stop].tolist()
        else:
            queue.append_units(units[start * UNIT_SIZE_BYTES : stop * UNIT_SIZE_BYTES])
            grown.append((queue, queue_offset))
    return Appended(grown, len(order) - len(left) - passed_count, sorted(left))


def _has_units(queue: AnyQueue, queue_offset: int, count: int, newest: int) -> bool:
    """Return True when a queue has these offsets, and has grown beyond their newest record, at a physical offset."""
    return queue_offset >= 0 and queue_offset + count <= queue.max_offset and newest <= queue.last_physical_offset


def _sortable(queue_ids: NDArray[np.int64]) -> NDArray[np.int64] | NDArray[np.uint16]:
    """The queue ids as 16-bit numbers where they fit: these are sorted twice as fast."""
    return queue_ids.astype(np.uint16) if queue_ids.min() >= 0 and queue_ids.max() < 1 << 16 else queue_ids


def _queue_at(queues: QueueTable, topic: str, queue_id: int, queue_offset: int) -> ConsumeQueue | None:
    """The queue that ends at ``queue_offset``; None when there is none, or its records must go one by one."""
    queue = queues.get(topic, queue_id)
    expected = queue.max_offset if queue is not None else 0
    if queue_offset != expected or is_schedule_topic(topic) or queues.deleted_end(topic):
        return None
    if queue is None and (topic_problem(topic) is not None or queue_id < 0):
        return None
    queue = queue or queues.make(topic, queue_id)
    return queue if isinstance(queue, ConsumeQueue) else None


def packed_units(records: Records) -> NDArray[np.void]:
    """The consume queue unit of each record. Not for the schedule topic, whose units hold times."""
    units = np.zeros(len(records), UNITS)
    units["offset"] = records.offsets
    units["size"] = records.sizes
    if records.templated is not None:
        _set_tags(units, records.templated.values(b"TAGS"))
        return units
    properties = Properties(records.properties)
    found = properties.find(b"TAGS")
    if len(found.owners):
        shared = properties.shared_value(found)
        if shared is not None:
            units["tags"][found.owners] = _tags_code(shared)
            return units
        values = properties.values(found)
        codes = {value: _tags_code(value) for value in set(values)}
        units["tags"][found.owners] = [codes[value] for value in values]
    return units


def _set_tags(units: NDArray[np.void], values: NDArray[np.uint8] | None) -> None:
    """Set the tags codes of all units from the tags of their records, a row each."""
    if values is None:
        return
    first = values[0].tobytes()
    if (values == values[0]).all():
        units["tags"] = _tags_code(first)
        return
    size, raw = len(first), values.tobytes()
    each = [raw[at : at + size] for at in range(0, len(raw), size)]
    codes = {value: _tags_code(value) for value in set(each)}
    units["tags"] = [codes[value] for value in each]


def _tags_code(value: bytes) -> int:
    return tags_code(value.decode("utf-8", "replace"))


def record_keys(records: Records) -> KeyColumns:
    """What the index gets of the records: a row for each key, in their order."""
    records = _with_entries(records)
    if records.templated is not None:
        columns = templated_keys(records.templated, records.offsets, records.store_ms)
        if columns is not None:
            return columns
    prefixes = np.array([topic_hash(name) for name in records.names], dtype=np.uint32)[records.topics]
    return key_columns(records.properties, prefixes, records.offsets, records.store_ms)


def _with_entries(records: Records) -> Records:
    """Without rollbacks, which can't be looked up by key."""
    visible = records.sys_flags & sysflag.TRANSACTION_MASK != sysflag.TRANSACTION_ROLLBACK
    return records if visible.all() else records.select(np.flatnonzero(visible))

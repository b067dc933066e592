"""Makes queue units and index rows from many records at once: what :mod:`pymq.store.recovery` does one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymq.model import sysflag
from pymq.model.javahash import tags_code
from pymq.model.names import topic_problem
from pymq.store.bulk_scan import Int64s, Records
from pymq.store.consume_queue import ConsumeQueue
from pymq.store.index_hash import key_hashes_in, topic_hash
from pymq.store.index_keys import KeyColumns
from pymq.store.queue_table import QueueTable
from pymq.store.settings import UNIT_SIZE_BYTES, is_schedule_topic

_UNIT = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tags", ">i8")])
_NO_UNIT_FLAG = 0x4  # half messages and rollbacks
_NONE: Int64s = np.empty(0, np.int64)
_SEPARATOR = 2
_PADDING = bytes(16)  # so that a name can be compared at every place


class Found(NamedTuple):
    """Values of one property: numbers of the records that have it, ascending, and where the values lie in the text."""

    owners: Int64s
    starts: Int64s
    ends: Int64s


class Properties:
    """The properties of many records, joined into one text so that all are searched at once."""

    def __init__(self, properties: list[bytes]) -> None:
        self.text = b"".join((b"\x02", b"\x02".join(properties), b"\x02", _PADDING))
        sizes = np.fromiter(map(len, properties), np.int64, len(properties))
        self._starts = np.arange(len(properties)) + np.cumsum(sizes) - sizes  # of the separator before each record's
        self._separators = np.flatnonzero(np.frombuffer(self.text, np.uint8) == _SEPARATOR)

    def find(self, name: bytes) -> Found:
        """The property of each record that has it: the last one of that name which isn't empty."""
        head = b"\x02" + name + b"\x01"
        if head not in self.text:
            return Found(_NONE, _NONE, _NONE)
        places = self._separators[:-1]
        heads = np.ndarray((len(self.text) - len(head) + 1,), f"V{len(head)}", self.text, 0, (1,))[places]
        hits = np.flatnonzero(heads == np.void(head))
        starts, ends = places[hits] + len(head), self._separators[hits + 1]
        filled = ends > starts
        starts, ends = starts[filled], ends[filled]
        owners = np.searchsorted(self._starts, starts) - 1
        last = np.ones(len(owners), dtype=bool)
        last[:-1] = owners[1:] != owners[:-1]
        return Found(owners[last], starts[last], ends[last])

    def values(self, found: Found) -> list[bytes]:
        text = self.text
        return [text[start:end] for start, end in zip(found.starts.tolist(), found.ends.tolist(), strict=True)]


class Appended(NamedTuple):
    """What :func:`append_units` did: ``left`` numbers, ascending, the records that have to be looked at one by one."""

    queues: list[ConsumeQueue]
    unit_count: int
    left: list[int]


def append_units(records: Records, queues: QueueTable) -> Appended:
    """Appends the units of those records that continue their queues."""
    wanted = np.flatnonzero(records.sys_flags & _NO_UNIT_FLAG == 0)
    if not len(wanted):
        return Appended([], 0, [])
    order = wanted[np.lexsort((records.queue_ids[wanted], records.topics[wanted]))]
    topics, queue_ids, queue_offsets = records.topics[order], records.queue_ids[order], records.queue_offsets[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (topics[1:] != topics[:-1]) | (queue_ids[1:] != queue_ids[:-1])
    starts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    follows = queue_offsets - queue_offsets[starts][group] == np.arange(len(order)) - starts[group]
    dense = np.logical_and.reduceat(follows, starts).tolist()
    units = _units(records)[order].tobytes()
    grown: list[ConsumeQueue] = []
    left: list[int] = []
    bounds = [*starts.tolist(), len(order)]
    heads = zip(topics[starts].tolist(), queue_ids[starts].tolist(), queue_offsets[starts].tolist(), strict=True)
    for number, (topic, queue_id, queue_offset) in enumerate(heads):
        start, stop = bounds[number], bounds[number + 1]
        queue = _queue_at(queues, records.names[topic], queue_id, queue_offset) if dense[number] else None
        if queue is None:
            left += order[start:stop].tolist()
        else:
            queue.append_units(units[start * UNIT_SIZE_BYTES : stop * UNIT_SIZE_BYTES])
            grown.append(queue)
    return Appended(grown, len(order) - len(left), sorted(left))


def _queue_at(queues: QueueTable, topic: str, queue_id: int, queue_offset: int) -> ConsumeQueue | None:
    """The queue whose end is ``queue_offset``; None when there is none, or its units are not made from tags."""
    queue = queues.get(topic, queue_id)
    if is_schedule_topic(topic) or queue_offset != (queue.max_offset if queue is not None else 0):
        return None
    if queue is not None:
        return queue
    return queues.make(topic, queue_id) if topic_problem(topic) is None and queue_id >= 0 else None


def _units(records: Records) -> NDArray[np.void]:
    units = np.zeros(len(records), _UNIT)
    units["offset"] = records.offsets
    units["size"] = records.sizes
    properties = Properties(records.properties)
    found = properties.find(b"TAGS")
    if len(found.owners):
        values = properties.values(found)
        codes = {value: tags_code(value.decode("utf-8", "replace")) for value in set(values)}
        units["tags"][found.owners] = [codes[value] for value in values]
    return units


def key_columns(records: Records) -> KeyColumns:
    """What the index gets of the records: a row for each key, in their order."""
    properties = Properties(records.properties)
    found = properties.find(b"UNIQ_KEY")
    words = properties.find(b"KEYS")
    if len(words.owners):
        found = _joined(found, _split(words, properties.text))
    if (records.sys_flags & sysflag.TRANSACTION_MASK == sysflag.TRANSACTION_ROLLBACK).any():
        states = records.sys_flags[found.owners] & sysflag.TRANSACTION_MASK
        kept = states != sysflag.TRANSACTION_ROLLBACK
        found = Found(found.owners[kept], found.starts[kept], found.ends[kept])
    prefixes = np.array([topic_hash(name) for name in records.names], dtype=np.uint32)[records.topics[found.owners]]
    hashes = key_hashes_in(properties.text, found.starts, found.ends - found.starts, prefixes)
    return KeyColumns(hashes, records.offsets[found.owners], records.store_ms[found.owners])


def _split(words: Found, text: bytes) -> Found:
    """A row for each word of the values."""
    owners, starts, ends = [], [], []
    for owner, start, end in zip(words.owners.tolist(), words.starts.tolist(), words.ends.tolist(), strict=True):
        at = start
        for word in text[start:end].split(b" "):
            if word:
                owners.append(owner)
                starts.append(at)
                ends.append(at + len(word))
            at += len(word) + 1
    return Found(np.array(owners, np.int64), np.array(starts, np.int64), np.array(ends, np.int64))


def _joined(first: Found, then: Found) -> Found:
    """Both, ordered by record; what ``first`` has of a record comes first."""
    owners = np.concatenate((first.owners, then.owners))
    order = np.argsort(owners, kind="stable")
    starts, ends = np.concatenate((first.starts, then.starts)), np.concatenate((first.ends, then.ends))
    return Found(owners[order], starts[order], ends[order])

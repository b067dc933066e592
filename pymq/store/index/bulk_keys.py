"""Finds the properties of thousands of records at once with numpy, and makes the keys of the index of them.

A property test holds the keys equal to those of :meth:`pymq.store.index.keyed_records.KeyRows.add_record`.
"""

from __future__ import annotations

from functools import cached_property
from itertools import compress, islice
from operator import is_not
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymq.store.index.key_hash import hashes_of_letters, key_hashes_in, topic_hash
from pymq.store.index.keyed_records import KEY_WORDS_MAX, KeyColumns, KeyedRecords
from pymq.store.scan.templates import TemplatedRecords

Int64s = NDArray[np.int64]
_NONE: Int64s = np.empty(0, np.int64)
_SEPARATOR = 2
_SPACE = 32
_PROBE_STEP = 64  # one in this many records is checked for shared properties before all are
_PADDING = bytes(16)  # lets a name be compared at every place


class Found(NamedTuple):
    """Values of one property: the numbers of the records that have it, ascending, and the places of the values."""

    owners: Int64s
    starts: Int64s
    ends: Int64s


class Properties:
    """The properties of many records, joined into one text that is searched at once.

    The properties of one producer often have equal sizes, and their names in equal places. Then the first record and a
    comparison of columns tell what otherwise takes a search at every separator.
    """

    def __init__(self, properties: list[bytes]) -> None:
        self.text = b"".join((b"\x02", b"\x02".join(properties), b"\x02", _PADDING))
        self._count = len(properties)
        self._sizes = np.fromiter(map(len, properties), np.int64, len(properties))

    @cached_property
    def _starts(self) -> Int64s:
        """The place of the separator before each record's properties."""
        return np.arange(self._count) + np.cumsum(self._sizes) - self._sizes

    @cached_property
    def _separators(self) -> Int64s:
        return np.flatnonzero(np.frombuffer(self.text, np.uint8) == _SEPARATOR)

    @cached_property
    def _rows(self) -> NDArray[np.uint8] | None:
        """The separator and the properties of each record, a row each; None when the sizes differ."""
        if not self._count or (self._sizes != self._sizes[0]).any():
            return None
        stride = int(self._sizes[0]) + 1
        return np.frombuffer(self.text, np.uint8, self._count * stride).reshape(self._count, stride)

    def find(self, name: bytes) -> Found:
        """The property of each record that has it: the last one of that name that is not empty."""
        head = b"\x02" + name + b"\x01"
        count = self.text.count(head)
        if not count:
            return Found(_NONE, _NONE, _NONE)
        in_columns = self._find_in_columns(head) if count == self._count else None
        return in_columns if in_columns is not None else self._find_at_separators(head)

    def _find_in_columns(self, head: bytes) -> Found | None:
        """Find a name that occurs once a record. None unless name and value have equal places in all records."""
        rows = self._rows
        at = -1 if rows is None else self.text.find(head, 0, rows.shape[1])
        if rows is None or at < 0:
            return None
        start = at + len(head)
        end = self.text.index(b"\x02", start)
        if end == start or end > rows.shape[1] or (rows[:, at:start] != rows[0, at:start]).any():
            return None
        if (rows[:, start:end] == _SEPARATOR).any() or (rows[:, end : end + 1] != _SEPARATOR).any():
            return None
        begins = np.arange(self._count) * rows.shape[1]
        return Found(np.arange(self._count), begins + start, begins + end)

    def _find_at_separators(self, head: bytes) -> Found:
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

    def shared_value(self, found: Found) -> bytes | None:
        """The value that all of the records have; None when they differ."""
        first = self.text[found.starts[0] : found.ends[0]]
        if (found.ends - found.starts != len(first)).any():
            return None
        values = np.ndarray((len(self.text) - len(first) + 1,), f"V{len(first)}", self.text, 0, (1,))[found.starts]
        return first if (values == np.void(first)).all() else None


def key_columns(properties: list[bytes], prefixes: NDArray[np.uint32], offsets: Int64s, times_ms: Int64s) -> KeyColumns:
    """A row for each key of the records, in their order. ``prefixes``: the ``topic_hash`` of each record's topic."""
    joined = Properties(properties)
    found = joined.find(b"UNIQ_KEY")
    words = joined.find(b"KEYS")
    if len(words.owners):
        found = _merged(found, _split(words, joined.text))
    hashes = key_hashes_in(joined.text, found.starts, found.ends - found.starts, prefixes[found.owners])
    return KeyColumns(hashes, offsets[found.owners], times_ms[found.owners])


def templated_keys(templated: TemplatedRecords, offsets: Int64s, times_ms: Int64s) -> KeyColumns | None:
    """Do as :func:`key_columns` for templated records. None for keys that must be found one by one."""
    unique, words = templated.values(b"UNIQ_KEY"), templated.values(b"KEYS")
    if words is not None and (words == _SPACE).any():
        return None
    prefix = topic_hash(templated.template.topic)
    columns = [hashes_of_letters(letters, prefix) for letters in (unique, words) if letters is not None]
    hashes = [column for column in columns if column is not None]
    if len(hashes) < len(columns):
        return None
    if not hashes:
        return KeyColumns(_NONE, _NONE, _NONE)
    if len(hashes) == 1:
        return KeyColumns(hashes[0], offsets, times_ms)
    return KeyColumns(np.column_stack(hashes).reshape(-1), np.repeat(offsets, 2), np.repeat(times_ms, 2))


def waiting_keys(records: KeyedRecords) -> KeyColumns:
    """The keys of records that waited for the index.

    Records of a batch share one object as properties, which is read once. Records of other topics do not share it.
    """
    count = len(records)
    prefixes = _prefixes(records.topics)
    offsets, times_ms = np.array(records.offsets, np.int64), np.array(records.times_ms, np.int64)
    properties = records.properties
    probes = range(1, count - 1, _PROBE_STEP)  # each looks to both sides: it may be at the begin or end of a batch
    if not any(properties[i - 1] is properties[i] or properties[i] is properties[i + 1] for i in probes):
        return key_columns(properties, prefixes, offsets, times_ms)
    firsts = [0, *compress(range(1, count), map(is_not, properties, islice(properties, 1, None)))]
    starts = np.array(firsts)
    distinct = [properties[first] for first in firsts]
    once = key_columns(distinct, prefixes[starts], np.arange(len(starts)), times_ms[starts])
    return _repeated(once, starts, offsets, times_ms)


def _prefixes(topics: list[str]) -> NDArray[np.uint32]:
    count = len(topics)
    if count and topics.count(topics[0]) == count:
        return np.full(count, topic_hash(topics[0]), np.uint32)
    by_topic = {topic: topic_hash(topic) for topic in set(topics)}
    return np.fromiter(map(by_topic.__getitem__, topics), np.uint32, count)


def _repeated(once: KeyColumns, starts: Int64s, offsets: Int64s, times_ms: Int64s) -> KeyColumns:
    """Rows for every record of runs that share their properties.

    ``once``: a row for each key of a run, with the run's number as offset. ``starts``: where each run begins.
    """
    runs = once.offsets
    sizes = np.diff(starts, append=len(offsets))[runs]
    first_rows = np.cumsum(sizes) - sizes
    records = np.arange(sizes.sum()) + np.repeat(starts[runs] - first_rows, sizes)
    order = np.argsort(records, kind="stable")  # a run with several keys has several rows
    return KeyColumns(np.repeat(once.hashes, sizes)[order], offsets[records[order]], times_ms[records[order]])


def _split(words: Found, text: bytes) -> Found:
    """A row for each word of the values, up to ``KEY_WORDS_MAX`` for each record."""
    spaces = np.flatnonzero(np.frombuffer(text, np.uint8) == _SPACE)
    values = np.searchsorted(words.starts, spaces, side="right") - 1
    inside = spaces[(values >= 0) & (spaces < words.ends[values])]
    # The values don't overlap, so the n-th start and the n-th end belong to one word.
    starts = np.sort(np.concatenate((words.starts, inside + 1)))
    ends = np.sort(np.concatenate((inside, words.ends)))
    filled = ends > starts
    starts, ends = starts[filled], ends[filled]
    owners = words.owners[np.searchsorted(words.starts, starts, side="right") - 1]
    # Owners ascend, so a word's number in its record is its distance from the record's first word.
    kept = np.arange(len(owners)) - np.searchsorted(owners, owners) < KEY_WORDS_MAX
    return Found(owners[kept], starts[kept], ends[kept])


def _merged(first: Found, then: Found) -> Found:
    """The rows of both, ordered by record. Those of ``first`` come first in each record."""
    owners = np.concatenate((first.owners, then.owners))
    order = np.argsort(owners, kind="stable")
    starts, ends = np.concatenate((first.starts, then.starts)), np.concatenate((first.ends, then.ends))
    return Found(owners[order], starts[order], ends[order])

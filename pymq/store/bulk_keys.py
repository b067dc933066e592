"""Finds properties of thousands of records at once with numpy, and makes the index' keys of them.

The same keys as :meth:`pymq.store.index_keys.KeyRows.add_record` finds; a property test holds both equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymq.store.index_hash import key_hashes_in, topic_hash
from pymq.store.index_keys import KeyColumns, KeyedRecords

Int64s = NDArray[np.int64]
_NONE: Int64s = np.empty(0, np.int64)
_SEPARATOR = 2
_SPACE = 32
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


def key_columns(properties: list[bytes], prefixes: NDArray[np.uint32], offsets: Int64s, times_ms: Int64s) -> KeyColumns:
    """A row for each key of the records, in their order. ``prefixes``: the ``topic_hash`` of each record's topic."""
    joined = Properties(properties)
    found = joined.find(b"UNIQ_KEY")
    words = joined.find(b"KEYS")
    if len(words.owners):
        found = _merged(found, _split(words, joined.text))
    hashes = key_hashes_in(joined.text, found.starts, found.ends - found.starts, prefixes[found.owners])
    return KeyColumns(hashes, offsets[found.owners], times_ms[found.owners])


def waiting_keys(records: KeyedRecords) -> KeyColumns:
    """The keys of records that waited for the index."""
    by_topic = {topic: topic_hash(topic) for topic in set(records.topics)}
    prefixes = np.fromiter(map(by_topic.__getitem__, records.topics), np.uint32, len(records))
    offsets, times_ms = np.array(records.offsets, np.int64), np.array(records.times_ms, np.int64)
    return key_columns(records.properties, prefixes, offsets, times_ms)


def _split(words: Found, text: bytes) -> Found:
    """A row for each word of the values."""
    spaces = np.flatnonzero(np.frombuffer(text, np.uint8) == _SPACE)
    values = np.searchsorted(words.starts, spaces, side="right") - 1
    inside = spaces[(values >= 0) & (spaces < words.ends[values])]
    # The values don't overlap, so the n-th start and the n-th end are those of one word.
    starts = np.sort(np.concatenate((words.starts, inside + 1)))
    ends = np.sort(np.concatenate((inside, words.ends)))
    filled = ends > starts
    starts, ends = starts[filled], ends[filled]
    return Found(words.owners[np.searchsorted(words.starts, starts, side="right") - 1], starts, ends)


def _merged(first: Found, then: Found) -> Found:
    """Both, ordered by record; what ``first`` has of a record comes first."""
    owners = np.concatenate((first.owners, then.owners))
    order = np.argsort(owners, kind="stable")
    starts, ends = np.concatenate((first.starts, then.starts)), np.concatenate((first.ends, then.ends))
    return Found(owners[order], starts[order], ends[order])

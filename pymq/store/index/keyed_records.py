"""Columns of records whose keys wait for the index, and of keys, so that bulk work needs no loop over rows.

A send only notes its record's properties. The index finds the keys in them later, after the answer is sent.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Java: the unique key first, then every word of KEYS. The last value of a name counts, but doubles are rare.
_KEYS = re.compile(rb"(?:\A|(?<=\x02))(UNIQ_KEY|KEYS)\x01([^\x02]+)")


# Words of KEYS that are indexed, the first ones. RocketMQ has no limit: a message of 32 KiB can hold 16,000 keys, all
# in one slot of the index.
KEY_WORDS_MAX = 128
# Rows of one batch end at so many bytes of properties, some 50,000 keys.
BATCH_PROPERTIES_BYTES = 512 * 1024


class KeyColumns(NamedTuple):
    """Hashed keys, in the order of their records' physical offsets."""

    hashes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    times_ms: NDArray[np.int64]

    def below(self, end: int) -> KeyColumns:
        """The keys of records below the physical offset ``end``."""
        count = int(self.offsets.searchsorted(end))
        return KeyColumns(self.hashes[:count], self.offsets[:count], self.times_ms[:count])


def joined(parts: list[KeyColumns]) -> KeyColumns:
    """All parts, joined in their order."""
    if len(parts) == 1:
        return parts[0]
    import numpy as np  # noqa: PLC0415 - it made the columns

    return KeyColumns(*(np.concatenate(each) for each in zip(*parts, strict=True)))


class KeyedRecords:
    """Records, one row each, in the order of their physical offsets. ``properties`` need hold the keys only."""

    __slots__ = ("offsets", "properties", "times_ms", "topics")

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.properties: list[bytes] = []
        self.offsets: list[int] = []
        self.times_ms: list[int] = []

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, topic: str, properties: bytes, offset: int, store_ms: int) -> None:
        """Add one record, unless it can't have keys."""
        # Both property names that hold keys contain these letters.
        if b"KEY" in properties:
            self.topics.append(topic)
            self.properties.append(properties)
            self.offsets.append(offset)
            self.times_ms.append(store_ms)

    def extend(self, other: KeyedRecords) -> None:
        """Append all rows of ``other``."""
        self.topics += other.topics
        self.properties += other.properties
        self.offsets += other.offsets
        self.times_ms += other.times_ms

    def first(self, count: int) -> KeyedRecords:
        """A copy of the first ``count`` rows; of fewer, but one, when their properties are long."""
        size_bytes = 0
        for number, properties in enumerate(islice(self.properties, count)):
            size_bytes += len(properties)
            if size_bytes > BATCH_PROPERTIES_BYTES:
                count = max(1, number)
                break
        rows = KeyedRecords()
        rows.topics = self.topics[:count]
        rows.properties = self.properties[:count]
        rows.offsets = self.offsets[:count]
        rows.times_ms = self.times_ms[:count]
        return rows

    def drop_first(self, count: int) -> None:
        """Drop the first ``count`` rows."""
        del self.topics[:count]
        del self.properties[:count]
        del self.offsets[:count]
        del self.times_ms[:count]

    def truncate(self, end: int) -> None:
        """Drop the records from the physical offset ``end`` on."""
        count = len(self)
        while count and self.offsets[count - 1] >= end:
            count -= 1
        for column in (self.topics, self.properties, self.offsets, self.times_ms):
            del column[count:]


class WaitingRecords(KeyedRecords):
    """Records that wait for long: ``size_bytes`` is that of their properties."""

    __slots__ = ("size_bytes",)

    def __init__(self) -> None:
        super().__init__()
        self.size_bytes = 0

    def add(self, topic: str, properties: bytes, offset: int, store_ms: int) -> None:
        count = len(self)
        super().add(topic, properties, offset, store_ms)
        self.size_bytes += sum(map(len, self.properties[count:]))

    def extend(self, other: KeyedRecords) -> None:
        super().extend(other)
        self.size_bytes += sum(map(len, other.properties))

    def drop_first(self, count: int) -> None:
        self.size_bytes -= sum(map(len, self.properties[:count]))
        super().drop_first(count)

    def truncate(self, end: int) -> None:
        super().truncate(end)
        self.size_bytes = sum(map(len, self.properties))


class KeyRows:
    """Keys, one row each, in the order of their records' physical offsets."""

    __slots__ = ("keys", "offsets", "times_ms", "topics")

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.keys: list[bytes] = []
        self.offsets: list[int] = []
        self.times_ms: list[int] = []

    def __len__(self) -> int:
        return len(self.keys)

    def add_record(self, topic: str, properties: bytes, offset: int, store_ms: int) -> None:
        """Add a row for each key in a record's properties."""
        found = dict(_KEYS.findall(properties))
        unique_key = found.get(b"UNIQ_KEY")
        if unique_key:
            self._add(topic, unique_key, offset, store_ms)
        words = filter(None, found.get(b"KEYS", b"").split(b" "))
        for word in islice(words, KEY_WORDS_MAX):
            self._add(topic, word, offset, store_ms)

    def _add(self, topic: str, key: bytes, offset: int, store_ms: int) -> None:
        self.topics.append(topic)
        self.keys.append(key)
        self.offsets.append(offset)
        self.times_ms.append(store_ms)

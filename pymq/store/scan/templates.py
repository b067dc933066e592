"""Record templates: records with the same topic, flags, property names and sizes of property values.

A producer's messages often differ only in body, numbers, times and property values. All other bytes are equal, at the
same distance from the record's end. So parsing one record tells where the parts of thousands are, and a comparison of
bytes tells which records fit. :mod:`pymq.store.scan.bulk` reads all other records; property tests hold both equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymq.model.layout import BODY_AT, BOTH_LENGTHS_BYTES, UNCOMMON_FLAGS
from pymq.model.layout_dtypes import Int64s
from pymq.store.log.log_record import parse_record

Bytes = NDArray[np.uint8]
_WORD_BYTES = 8
_SEPARATOR, _NAME_END = b"\x02", b"\x01"
_LOW = 2  # zeros, name ends and separators: no value of a templated record has one of these bytes


class RecordTemplate:
    """What follows the body: length of the topic, topic, length of the properties, properties.

    ``width``: how many of a record's last bytes are compared, in whole words; the first of them may belong to the body.
    """

    def __init__(self, topic: str, tail: bytes, properties_at: int) -> None:
        self.topic = topic
        self.tail_bytes = len(tail)
        self.head = tail[:properties_at]  # topic and lengths
        self.width = -(-len(tail) // _WORD_BYTES) * _WORD_BYTES
        padding = self.width - len(tail)
        self.properties_at = at = padding + properties_at
        self.values: dict[bytes, slice] = {}  # where each property's last nonempty value is
        constant = bytearray(b"\xff" * self.width)
        constant[:padding] = bytes(padding)
        for part in tail[properties_at:].split(_SEPARATOR):
            name, found, value = part.partition(_NAME_END)
            end = at + len(part)
            if found and value:
                constant[end - len(value) : end] = bytes(len(value))
                self.values[name] = slice(end - len(value), end)
            at = end + 1
        self._constant = np.frombuffer(bytes(constant), np.uint64)
        self._expected = np.frombuffer(bytes(padding) + tail, np.uint64) & self._constant
        self._low_count = _low_count(tail[properties_at:])
        in_values = sum(_low_count(tail[at.start - padding : at.stop - padding]) for at in self.values.values())
        self.is_usable = b"\0" not in tail[properties_at:] and not in_values

    def all_fit(self, tails: Bytes) -> bool:
        """Return whether all records fit. ``tails``: the last bytes of the records, a row each."""
        if ((tails.view(np.uint64) & self._constant) != self._expected).any():
            return False
        # All have the template's low bytes. Without further ones no property begins or ends anywhere else.
        return bool(np.count_nonzero(tails[:, self.properties_at :] <= _LOW) == self._low_count * len(tails))

    def fit(self, tails: Bytes) -> NDArray[np.bool_]:
        """Return for each row whether it fits."""
        same: NDArray[np.bool_] = ((tails.view(np.uint64) & self._constant) == self._expected).all(axis=1)
        same &= np.count_nonzero(tails[:, self.properties_at :] <= _LOW, axis=1) == self._low_count
        return same


def _low_count(text: bytes) -> int:
    return sum(byte <= _LOW for byte in text)


class TemplatedRecords(NamedTuple):
    """The last bytes of records that fit one template, a row each."""

    template: RecordTemplate
    tails: Bytes

    def part(self, rows: slice | Int64s) -> TemplatedRecords:
        """Return some of the rows."""
        return TemplatedRecords(self.template, self.tails[rows])

    def properties(self) -> list[bytes]:
        """Return each record's raw properties."""
        size = self.template.width - self.template.properties_at
        if not size:
            return [b""] * len(self.tails)
        raw = self.tails[:, self.template.properties_at :].tobytes()
        return [raw[at : at + size] for at in range(0, len(raw), size)]

    def values(self, name: bytes) -> Bytes | None:
        """Return the values of a property, a row each; None when the records don't have it."""
        where = self.template.values.get(name)
        return None if where is None else self.tails[:, where]


def template_of(piece: bytes, start: int, end: int, offset: int) -> RecordTemplate | None:
    """Return the template of the record at ``start`` of a piece that begins at physical offset ``offset``, or None."""
    record = parse_record(memoryview(piece)[start:end], 0, offset + start, False)
    if record is None or record.sys_flag & UNCOMMON_FLAGS or not record.topic:
        return None
    properties_at = end - len(record.properties)
    tail_at = properties_at - BOTH_LENGTHS_BYTES - len(record.topic.encode())
    if tail_at - start < BODY_AT:  # version 2: its topic has a length of two bytes
        return None
    template = RecordTemplate(record.topic, piece[tail_at:end], properties_at - tail_at)
    return template if template.is_usable and template.width <= end - start else None

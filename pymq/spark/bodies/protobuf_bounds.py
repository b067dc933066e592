"""ProtobufBounds: how many values a Protobuf body has, before the library makes objects of it.

Two bytes are an empty message in a list, which takes memory for all of its fields. Where a body is so long that this
could matter, a walk over its bytes counts.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor

from pymq.spark.bodies.body_format import BadBodyError, values_max
from pymq.spark.bodies.protobuf_columns import MESSAGES, is_repeated

PROTOBUF_DEPTH_MAX: Final = 100  # messages in each other, as the library has it
OBJECT_WEIGHT: Final = 4
_VARINT_BYTES_MAX = 10
_HIGH_BYTES = bytes(range(0x80, 0x100))
_VARINT, _EIGHT, _SIZED, _GROUP, _END_GROUP, _FOUR = range(6)
_CORRUPT = "its bytes are no Protobuf"
_PACKED_BYTES = {
    FieldDescriptor.TYPE_STRING: -1,
    FieldDescriptor.TYPE_BYTES: -1,
    **dict.fromkeys((FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32), 4),
    **dict.fromkeys((FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64), 8),
}


class _Field(NamedTuple):
    weight: int  # of each value in a list; 0 for a field that is none
    message: Any  # its type, None for a scalar
    form: int  # how messages are written: with their size, or as a group
    packed_bytes: (
        int  # of each item in a packed list; 0 for numbers that end with a small byte, -1 for what isn't packed
    )


class ProtobufBounds:
    """What bodies of a message type may become."""

    def __init__(self, descriptor: Any) -> None:
        self._fields: dict[str, dict[int, _Field]] = {}
        self._weights: dict[str, int] = {}
        self._root = descriptor
        self.weight = self._weight(descriptor, ())
        """The values that each body has."""
        self._values_per_byte = 1.0  # items of a list of scalars have a byte at least, those of messages two
        self._look(descriptor)
        self._left = self._most = 0

    def values(self, body: bytes) -> int:
        """Return a number that the values in ``body`` don't exceed; count them only where that may matter.

        Raises BadBodyError for more than :func:`values_max`, and for messages in each other beyond PROTOBUF_DEPTH_MAX.
        """
        most = self.weight + int(len(body) * self._values_per_byte)
        return most if most <= values_max(len(body), self.weight) else self.counted(body)

    def counted(self, body: bytes) -> int:
        """Return the number of values in ``body``. Raises BadBodyError, as :meth:`values`."""
        self._most = values_max(len(body), self.weight)
        self._left = self._most - self.weight
        self._check()
        try:
            end = self._walk(self._root, body, 0, len(body), 0, 0)
        except IndexError:
            end = -1
        if end != len(body):
            raise BadBodyError(_CORRUPT)
        return self._most - self._left

    def _check(self) -> None:
        if self._left < 0:
            raise BadBodyError(f"it has more than {self._most} values, the limit of its size")

    def _look(self, descriptor: Any) -> None:
        name = descriptor.full_name
        if name in self._fields:
            return
        found = self._fields[name] = {}
        for field in descriptor.fields:
            message = field.message_type if field.type in MESSAGES else None
            weight = 0
            if is_repeated(field):
                weight = 1 if message is None else self._weight(message, ())
                self._values_per_byte = max(self._values_per_byte, weight / (1 if message is None else 2))
            form = _GROUP if field.type == FieldDescriptor.TYPE_GROUP else _SIZED
            found[field.number] = _Field(weight, message, form, _PACKED_BYTES.get(field.type, 0))
        for field in descriptor.fields:
            if field.type in MESSAGES:
                self._look(field.message_type)

    def _weight(self, descriptor: Any, inside: tuple[str, ...]) -> int:
        """Return the values of a message, without the items of its lists."""
        name = descriptor.full_name
        if name in inside:
            return OBJECT_WEIGHT + len(descriptor.fields)
        if name not in self._weights:
            weight = OBJECT_WEIGHT
            for field in descriptor.fields:
                is_message = field.type in MESSAGES and not is_repeated(field)
                weight += self._weight(field.message_type, (*inside, name)) if is_message else 1
            self._weights[name] = weight
        return self._weights[name]

    def _walk(self, descriptor: Any, body: bytes, at: int, end: int, depth: int, group: int) -> int:
        """Return the place behind a message's fields, or behind the end of its group."""
        if depth > PROTOBUF_DEPTH_MAX:
            raise BadBodyError(f"it has more than {PROTOBUF_DEPTH_MAX} messages in each other, the limit")
        fields = self._fields[descriptor.full_name] if descriptor is not None else {}
        while at < end:
            tag, at = _varint(body, at)
            field, form = fields.get(tag >> 3), tag & 7
            if field is not None and field.message is not None and field.form != form:
                field = None  # to the library that is an unknown field
            message = field.message if field is not None else None
            if form == _END_GROUP:
                if tag >> 3 != group:
                    raise BadBodyError(_CORRUPT)
                return at
            if field is not None and (message is not None or form != _SIZED or field.packed_bytes < 0):
                self._left -= field.weight
            if form == _VARINT:
                _, at = _varint(body, at)
            elif form == _EIGHT:
                at += 8
            elif form == _FOUR:
                at += 4
            elif form == _GROUP:
                at = self._walk(message, body, at, end, depth + 1, tag >> 3)
            elif form == _SIZED:
                size, at = _varint(body, at)
                if size > end - at:
                    raise BadBodyError(_CORRUPT)
                if message is not None:
                    self._walk(message, body, at, at + size, depth + 1, 0)
                elif field is not None and field.weight:
                    self._left -= _packed_items(body[at : at + size], field.packed_bytes)
                at += size
            else:
                raise BadBodyError(_CORRUPT)
            self._check()
        if group or at > end:
            raise BadBodyError(_CORRUPT)
        return at


def _packed_items(packed: bytes, item_bytes: int) -> int:
    if item_bytes < 0:
        return 0  # counted as an item already
    return len(packed) // item_bytes if item_bytes else len(packed.translate(None, _HIGH_BYTES))


def _varint(body: bytes, at: int) -> tuple[int, int]:
    byte = body[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    for place in range(at + 1, at + _VARINT_BYTES_MAX):
        byte = body[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise BadBodyError(_CORRUPT)

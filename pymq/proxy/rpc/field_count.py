"""How many fields a protobuf message has, counted before it is decoded.

Two bytes of a request can become a message of 75 bytes, and a nested one more. So a large request is counted first:
that takes no memory, and ends at the limit. Nothing here is decoded. Unknown fields count once, whatever they hold.
"""

from __future__ import annotations

from typing import Any, Final

LENGTH_DELIMITED: Final = 2
SIZES: Final = {1: 8, 5: 4}  # of fixed wire types
_PACKED: Final = "packed"  # in a shape: a field whose bytes are numbers
_VARINT_BYTES_MAX: Final = 10

# By field number: the shape of a message within, or _PACKED. Other fields are not in it.
Shape = dict[int, Any]
_shapes: dict[str, Shape] = {}


def shape_of(descriptor: Any) -> Shape:
    """Return what to count of messages with this descriptor."""
    known = _shapes.get(descriptor.full_name)
    if known is None:
        known = _shapes[descriptor.full_name] = {}
        for field in descriptor.fields:
            if field.message_type is not None:
                known[field.number] = shape_of(field.message_type)
            elif field.cpp_type != field.CPPTYPE_STRING:
                known[field.number] = _PACKED
    return known


def count_fields(data: bytes, shape: Shape, count_max: int) -> int:
    """Return the number of fields, with the fields of inner messages; a number above ``count_max`` for more than that.

    Raises ValueError for bytes that are no such message, as far as they were looked at.
    """
    count = 0
    parts = [(0, len(data), shape)]
    try:
        while parts:
            at, end, shape = parts.pop()
            while at < end and count <= count_max:
                count += 1
                tag = data[at]
                at += 1
                if tag & 0x80:
                    tag, at = _varint(data, at - 1)
                kind = tag & 7
                if kind == LENGTH_DELIMITED:
                    size = data[at]
                    at += 1
                    if size & 0x80:
                        size, at = _varint(data, at - 1)
                    if at + size > end:
                        raise ValueError("a field ends behind its message")
                    within = shape.get(tag >> 3)
                    if within is _PACKED:
                        count += size
                    elif within is not None:
                        parts.append((at, at + size, within))
                    at += size
                elif kind == 0:
                    at = _varint(data, at)[1]
                else:
                    at += SIZES[kind]
            if count > count_max:
                return count
            if at > end:
                raise ValueError("a field ends behind its message")
    except (IndexError, KeyError):
        raise ValueError("the message ends early, or has groups") from None
    return count


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    number = 0
    for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError(f"a number has more than {_VARINT_BYTES_MAX} bytes")

"""Reads binary headers of signed sends with few objects, and finds what their signatures cover.

Of a producer's sends only born time, properties and signature vary, so the rest is decoded and ordered once. Java's
clients write the fields of a signed send twice; the second ones must be as the first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from pymq.broker.fast.header import BINARY_EXT_AT, V2_LETTERS, BinaryTemplates, SendExt, SendHead
from pymq.errors import ProtocolViolation
from pymq.security.signature import ACCESS_KEY, LATE_FIELD, SIGNATURE
from pymq.wire.codes import RequestCode
from pymq.wire.command import decode_binary_header

SIGNATURE_BYTES: Final = 28  # base64 of 20 bytes
SHAPES_MAX: Final = 1024  # a hostile client could send new ones without end
SHAPES_OF_BEGIN_MAX: Final = 8  # each is compared with a frame
SHAPE_SIZE_MAX_BYTES: Final = 1024  # of a header without what varies; sends with a longer one take the plain path
_BORN_TIME_BYTES: Final = 13
_VARYING: Final = ["g", "h", "i"]  # h is always 0 here
_SIGNATURE_NAME: Final = SIGNATURE.encode()
_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")
_BORN_TIME, _PROPERTIES, _SIGNATURE, _END = range(4)  # what follows a constant part
_KINDS: Final = {b"g": _BORN_TIME, b"i": _PROPERTIES, SIGNATURE.encode(): _SIGNATURE}


class SignedBinaryExt(SendExt, rename=V2_LETTERS, gc=False, kw_only=True):
    """The fields of a signed send. ``content``: what the signature covers, without the body."""

    access_key: str
    content: bytes = b""
    signature: bytes = b""


class _Shape(NamedTuple):
    """What follows the properties, in order: bytes that don't vary and what comes after them.

    ``before`` and ``after`` are the signed values whose names are ordered before and behind those that vary.
    """

    parts: tuple[tuple[bytes, int], ...]
    before: bytes
    after: bytes
    ext: SignedBinaryExt
    head: SendHead


class SignedBinaryTemplates(BinaryTemplates):
    """As :class:`BinaryTemplates`; headers with a signature have :class:`SignedBinaryExt` as their fields."""

    def __init__(self) -> None:
        super().__init__()
        self._shapes: dict[bytes, list[_Shape]] = {}  # by the bytes before the born time
        self._shape_count = 0

    def _learn(self, payload: bytes, g: int, i: int, end: int, body_at: int) -> SendHead | None:
        """Return the header of a signed send whose shape is known, or learn its shape."""
        born_time, properties = payload[g + 7 : g + 7 + _BORN_TIME_BYTES], payload[i:end]
        shapes = self._shapes.get(payload[BINARY_EXT_AT:g], ())
        for shape in shapes:
            signature = _signature(shape, payload, born_time, properties, end, body_at)
            if signature is not None:
                break
        else:
            if payload.find(_SIGNATURE_NAME, BINARY_EXT_AT, body_at) < 0:
                return super()._learn(payload, g, i, end, body_at)
            if g - BINARY_EXT_AT + body_at - end > SHAPE_SIZE_MAX_BYTES:
                return None
            learned = _learned(payload, g, i, end, body_at)
            if learned is None:
                return None
            shape = learned
            signature = _signature(shape, payload, born_time, properties, end, body_at)
            if signature is None:
                return None
            self._keep(payload[BINARY_EXT_AT:g], shape)
        ext = shape.ext
        ext.signature = signature
        ext.content = b"%b%b0%b%b" % (shape.before, born_time, properties[4:], shape.after)
        return shape.head

    def _keep(self, begin: bytes, shape: _Shape) -> None:
        if self._shape_count >= SHAPES_MAX:
            self._shapes.clear()
            self._shape_count = 0
        shapes = self._shapes.setdefault(begin, [])
        if len(shapes) < SHAPES_OF_BEGIN_MAX:
            self._shape_count += 1
        else:  # another user may have sent them: the oldest goes
            del shapes[0]
        shapes.append(shape)


def _signature(
    shape: _Shape, payload: bytes, born_time: bytes, properties: bytes, at: int, body_at: int
) -> bytes | None:
    """Return the signature in a header of this shape, from ``at`` behind the properties on; None for another shape.

    ``properties``: with their length before them.
    """
    signature = None
    for constant, follows in shape.parts:
        if not payload.startswith(constant, at):
            return None
        at += len(constant)
        if follows == _SIGNATURE:
            signature = payload[at : at + SIGNATURE_BYTES]
            at += SIGNATURE_BYTES
        elif follows != _END:
            again = born_time if follows == _BORN_TIME else properties
            if not payload.startswith(again, at):
                return None
            at += len(again)
    return signature if at == body_at else None


def _learned(payload: bytes, g: int, i: int, end: int, body_at: int) -> _Shape | None:
    """Return the shape of a signed header; None for one whose fields are not as clients write them."""
    try:
        fields = decode_binary_header(payload[4:body_at], b"").ext
        plain = msgspec.convert(fields, SendExt, strict=False)
    except (ProtocolViolation, msgspec.ValidationError):
        return None
    names = sorted(fields.keys() - {SIGNATURE})
    varying_at = names.index("g") if "g" in names else 0
    if (
        names[varying_at : varying_at + len(_VARYING)] != _VARYING
        or fields["h"] != "0"
        or ACCESS_KEY not in fields
        or LATE_FIELD in fields  # an old client's: it may not be covered
        or not "".join(names).isascii()  # Java orders others in another way
    ):
        return None
    parts = _parts(payload, g, i, end, body_at)
    if parts is None:
        return None
    before, after = names[:varying_at], names[varying_at + len(_VARYING) :]
    ext = SignedBinaryExt(**msgspec.structs.asdict(plain), access_key=fields[ACCESS_KEY])
    return _Shape(
        parts,
        "".join([fields[name] for name in before]).encode(),
        "".join([fields[name] for name in after]).encode(),
        ext,
        SendHead(RequestCode.SEND_MESSAGE_V2, 0, ext),
    )


def _parts(payload: bytes, g: int, i: int, end: int, body_at: int) -> tuple[tuple[bytes, int], ...] | None:
    """Return the parts of a header behind its properties, which end at ``end``; None for a value out of its place."""
    parts: list[tuple[bytes, int]] = []
    first = {b"g": g + 7, b"i": i + 4}  # where the values begin that vary
    at = end
    for name, value_at, value_end in _fields(payload, body_at):
        kind = _KINDS.get(name)
        if kind is None or value_at == value_end:
            continue
        if value_at < end:
            if first.pop(name, None) != value_at:
                return None
            continue
        begin = value_at - _I32.size if kind == _PROPERTIES else value_at
        parts.append((payload[at:begin], kind))
        at = value_end
    if first or [kind for _, kind in parts].count(_SIGNATURE) != 1:
        return None
    return (*parts, (payload[at:body_at], _END))


def _fields(payload: bytes, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, begin and end of each field's value. The header can be decoded."""
    at = BINARY_EXT_AT
    while at < end:
        name_at = at + _I16.size
        name_end = name_at + int(_I16.unpack_from(payload, at)[0])
        value_at = name_end + _I32.size
        at = value_at + int(_I32.unpack_from(payload, name_end)[0])
        yield payload[name_at:name_end], value_at, at

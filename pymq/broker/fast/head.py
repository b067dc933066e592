"""The header of one kind of request, JSON or binary, decoded into the members that a fast path needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from pymq.wire.command import SERIALIZE_JSON, SERIALIZE_ROCKETMQ, decode_binary_header
from pymq.wire.header import Int32

Ext = TypeVar("Ext")


class Head(msgspec.Struct, Generic[Ext], gc=False):
    """The members of a header that are needed; ``extFields`` is the wire's name."""

    code: int
    opaque: Int32
    extFields: Ext
    flag: int = 0


class HeadForm(NamedTuple, Generic[Ext]):
    """One encoding of a request's header.

    ``start`` is how it begins. ``decode`` takes it whole, and raises ValueError, RecursionError or ProtocolViolation.
    """

    start: bytes
    decode: Callable[[bytes], Head[Ext]]


def head_forms(code: int, ext_type: type[Ext]) -> dict[int, HeadForm[Ext]]:
    """Return both forms of the header of requests with ``code``, by the number of the encoding.

    ``ext_type`` has the request's own fields. A binary header begins with the lower 16 bits of the code.
    """

    def decode_binary(header: bytes) -> Head[Ext]:
        command = decode_binary_header(header, b"")
        ext = msgspec.convert(command.ext, ext_type, strict=False)
        return Head(command.code, command.opaque, ext, command.flag)

    decode_json = msgspec.json.Decoder(Head[ext_type], strict=False).decode  # type: ignore[valid-type]
    return {
        SERIALIZE_JSON: HeadForm(b'{"code":%d,' % code, decode_json),
        SERIALIZE_ROCKETMQ: HeadForm((code & 0xFFFF).to_bytes(2, "big"), decode_binary),
    }

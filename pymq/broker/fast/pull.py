"""FastPulls: the fast path of a pull with a JSON header that finds messages: fewer objects, the same bytes.

Any other pull (nothing found, parking, resets, refusals, other codecs) returns False and takes the plain path through
:class:`~pymq.broker.handlers.pull.PullHandlers`. A test compares the two.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec

from pymq.errors import PymqError
from pymq.wire.codes import VERSION_5_3_3
from pymq.wire.command import FLAG_ONEWAY, SERIALIZE_JSON
from pymq.wire.header import Int32
from pymq.wire.headers.pull import PullMessageHeader

if TYPE_CHECKING:
    from pymq.broker.handlers.pull import PullHandlers
    from pymq.net.server import Connection

_STARTS = (b'{"code":11,', b'{"code":361,')
_FRAME_HEAD = struct.Struct(">iI")
_ANSWER = (
    b'{"code":0,"extFields":{"suggestWhichBrokerId":"%d","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d",'
    b'"topicSysFlag":"0","groupSysFlag":"0"},"flag":1,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON",'
    b'"version":' + str(VERSION_5_3_3).encode() + b',"remark":"FOUND"}'
)


class _Head(msgspec.Struct, gc=False):
    code: int
    opaque: Int32
    extFields: PullMessageHeader
    flag: int = 0


_decode = msgspec.json.Decoder(_Head, strict=False).decode


class FastPulls:
    """A server calls it for every frame. It returns True when the frame was a pull that it has answered."""

    def __init__(self, handlers: PullHandlers) -> None:
        self._handlers = handlers
        self.count = 0

    def __call__(self, connection: Connection, payload: bytes) -> bool:
        if payload[0] != SERIALIZE_JSON or not payload.startswith(_STARTS, 4):
            return False
        end = 4 + (payload[1] << 16 | payload[2] << 8 | payload[3])
        if end > len(payload):
            return False
        try:
            head = _decode(payload[4:end])
            if head.flag & FLAG_ONEWAY:
                return False
            found = self._handlers.found(head.extFields)
        except (ValueError, RecursionError, PymqError, OSError):  # ValueError: bad JSON, bad UTF-8
            return False  # the plain path meets the same error and answers with it
        if found is None:
            return False
        result, broker_id = found
        answer = _ANSWER % (broker_id, result.next_offset, result.min_offset, result.max_offset, head.opaque)
        size = len(answer)
        connection.write(b"".join((_FRAME_HEAD.pack(4 + size + result.size_bytes, size), answer, *result.chunks)))
        self.count += 1
        return True

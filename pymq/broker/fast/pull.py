"""FastPulls: the fast path of a pull that finds messages, or parks: fewer objects, the same bytes.

Any other pull (nothing found and no wish to wait, resets, refusals, record filters) returns False and takes the plain
path through :class:`~pymq.broker.handlers.pull.PullHandlers`. A property test compares the two.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.fast.pull_header import PullHeads
from pymq.errors import PymqError
from pymq.wire.codes import VERSION_5_3_3
from pymq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, FRAME_HEAD, SERIALIZE_JSON, SERIALIZE_ROCKETMQ

if TYPE_CHECKING:
    from pymq.broker.handlers.pull import PullHandlers
    from pymq.net.server import Connection
    from pymq.store.store import GetResult

_NO_QUESTION = FLAG_ONEWAY | FLAG_RESPONSE
_JSON_ANSWER = (
    b'{"code":0,"extFields":{"suggestWhichBrokerId":"%d","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d",'
    b'"topicSysFlag":"0","groupSysFlag":"0"},"flag":1,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON",'
    b'"version":' + str(VERSION_5_3_3).encode() + b',"remark":"FOUND"}'
)
_BINARY_FIELDS = (
    b"\x00\x14suggestWhichBrokerId\x00\x00\x00%c%b\x00\x0fnextBeginOffset\x00\x00\x00%c%b\x00\x09minOffset\x00\x00\x00%c%b"
    b"\x00\x09maxOffset\x00\x00\x00%c%b\x00\x0ctopicSysFlag\x00\x00\x00\x010\x00\x0cgroupSysFlag\x00\x00\x00\x010"
)
_BINARY_REMARK = b"FOUND"
# The frame's length, the header's and its codec; code, language, version, opaque, flag, remark, length of the fields
_BINARY_HEAD = struct.Struct(f">iIhBhiii{len(_BINARY_REMARK)}si")
_BINARY_HEADER_SIZE_BYTES = _BINARY_HEAD.size - 8


class FastPulls:
    """A server calls it for every frame. It returns True when the frame was a pull that it has answered or parked."""

    def __init__(
        self, handlers: PullHandlers, otherwise: Callable[[Connection, bytes], bool] = lambda connection, payload: False
    ) -> None:
        """``otherwise`` is called with every frame that is no pull."""
        self._handlers = handlers
        self._otherwise = otherwise
        self._decode = PullHeads().decode
        self.count = 0

    def __call__(self, connection: Connection, payload: bytes) -> bool:
        try:
            head = self._decode(payload)
            if head is not None:
                if head.flag & _NO_QUESTION:
                    return False
                serialize = payload[0]
                found = self._handlers.quickly(head.extFields, connection, head.code, head.opaque, serialize)
        except (ValueError, RecursionError, PymqError, OSError):  # ValueError: bad JSON, bad UTF-8
            return False  # the plain path meets the same error and answers with it
        if head is None:
            return self._otherwise(connection, payload)
        if not isinstance(found, bool):
            result, broker_id = found
            encode = _json_answer if serialize == SERIALIZE_JSON else _binary_answer
            connection.write(b"".join((encode(head.opaque, broker_id, result), *result.chunks)))
        elif not found:
            return False
        self.count += 1
        return True


def _json_answer(opaque: int, broker_id: int, result: GetResult) -> bytes:
    """Return the begin of the answer's frame, before the messages."""
    header = _JSON_ANSWER % (broker_id, result.next_offset, result.min_offset, result.max_offset, opaque)
    size = len(header)
    return FRAME_HEAD.pack(4 + size + result.size_bytes, size) + header


def _binary_answer(opaque: int, broker_id: int, result: GetResult) -> bytes:
    """As :func:`_json_answer`, with a binary header."""
    broker, next_offset = b"%d" % broker_id, b"%d" % result.next_offset
    least, most = b"%d" % result.min_offset, b"%d" % result.max_offset
    fields = _BINARY_FIELDS % (len(broker), broker, len(next_offset), next_offset, len(least), least, len(most), most)
    size = _BINARY_HEADER_SIZE_BYTES + len(fields)
    head = _BINARY_HEAD.pack(
        4 + size + result.size_bytes,
        size | SERIALIZE_ROCKETMQ << 24,
        0,
        0,
        VERSION_5_3_3,
        opaque,
        FLAG_RESPONSE,
        len(_BINARY_REMARK),
        _BINARY_REMARK,
        len(fields),
    )
    return head + fields

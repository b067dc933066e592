"""Reads headers of PULL_MESSAGE and LITE_PULL_MESSAGE, with few objects.

Any other header gives None and takes the plain path, which finds the error.
"""

from __future__ import annotations

import struct

import msgspec

from pymq.errors import ProtocolViolation
from pymq.wire.codes import RequestCode
from pymq.wire.command import SERIALIZE_JSON, SERIALIZE_ROCKETMQ, decode_binary_header
from pymq.wire.header import Int32
from pymq.wire.headers.pull import PullMessageHeader

_JSON_STARTS = (b'{"code":11,', b'{"code":361,')
_BINARY_STARTS = (RequestCode.PULL_MESSAGE.to_bytes(2, "big"), RequestCode.LITE_PULL_MESSAGE.to_bytes(2, "big"))
_BINARY_FIELDS_AT = 25  # type and length 4, fixed part 13, empty remark 4, length of the fields 4
_BINARY_FIXED = struct.Struct(">hBhiiii")  # code, language, version, opaque, flag, lengths of remark and fields

# The fields that differ between the pulls of a consumer: length of the name, name, first bytes of the value's length.
_QUEUE = b"\x00\x07queueId\x00\x00\x00"
_OFFSET = b"\x00\x0bqueueOffset\x00\x00\x00"
_COMMIT = b"\x00\x0ccommitOffset\x00\x00\x00"
# The orders in which clients write them: Java's since 5.0, and before, from a hash table.
_ORDERS = ((_QUEUE, _OFFSET, _COMMIT), (_QUEUE, _COMMIT, _OFFSET))
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_TEMPLATE_COUNT_MAX = 4096  # a hostile client could send new ones without end
_TEMPLATE_SIZE_MAX_BYTES = 1024  # a longer header is decoded each time

# What is before, between and behind the three values with the last bytes of their lengths.
_Template = tuple[bytes, bytes, bytes, bytes]


class PullHead(msgspec.Struct, gc=False):
    """The members of a pull's header that are needed; ``extFields`` is the wire's name."""

    code: int
    opaque: Int32
    extFields: PullMessageHeader
    flag: int = 0


# Decodes a JSON header. Raises ValueError or RecursionError when it can't, also for bad UTF-8.
_decode_json = msgspec.json.Decoder(PullHead, strict=False).decode


class PullHeads:
    """Decodes headers of pulls. Binary ones: what is around the varying values is compared with known headers."""

    def __init__(self) -> None:
        self._known: dict[_Template, PullMessageHeader] = {}

    def decode(self, payload: bytes) -> PullHead | None:
        """Return the header of a frame that may be a pull. Raises ValueError or RecursionError for a bad one."""
        serialize = payload[0]
        if serialize == SERIALIZE_JSON:
            if not payload.startswith(_JSON_STARTS, 4):
                return None
            end = 4 + (payload[1] << 16 | payload[2] << 8 | payload[3])
            return _decode_json(payload[4:end]) if end <= len(payload) else None
        if serialize == SERIALIZE_ROCKETMQ and payload.startswith(_BINARY_STARTS, 4):
            end = 4 + (payload[1] << 16 | payload[2] << 8 | payload[3])
            if _BINARY_FIELDS_AT <= end <= len(payload):
                return self._decode_binary(payload, end)
        return None

    def _decode_binary(self, payload: bytes, end: int) -> PullHead | None:
        code, _, _, opaque, flag, remark_size, fields_size = _BINARY_FIXED.unpack_from(payload, 4)
        if remark_size or fields_size != end - _BINARY_FIELDS_AT:
            return None
        for order in _ORDERS:
            places = _places(payload, end, order)
            if places is not None:
                break
        else:
            return None
        (a, a_end), (b, b_end), (c, c_end) = places
        template = (
            payload[_BINARY_FIELDS_AT : a - 1],
            payload[a_end : b - 1],
            payload[b_end : c - 1],
            payload[c_end:end],
        )
        header = self._known.get(template)
        if header is None:
            header = self._learn(payload, end, template)
            if header is None:
                return None
        first, second, third = payload[a:a_end], payload[b:b_end], payload[c:c_end]
        queue_id, offset, commit = int(first), int(second), int(third)
        # As text again: int() takes spaces, signs and zeros that the plain path refuses.
        if b"%d%d%d" % (queue_id, offset, commit) != first + second + third:
            return None
        if order[1] is _COMMIT:
            offset, commit = commit, offset
        if not (-1 <= queue_id <= _INT32_MAX and -1 <= offset <= _INT64_MAX and -1 <= commit <= _INT64_MAX):
            return None
        header = PullMessageHeader(
            consumer_group=header.consumer_group,
            topic=header.topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=header.max_msg_nums,
            sys_flag=header.sys_flag,
            commit_offset=commit,
            suspend_timeout_millis=header.suspend_timeout_millis,
            sub_version=header.sub_version,
            subscription=header.subscription,
            expression_type=header.expression_type,
            max_msg_bytes=header.max_msg_bytes,
            pymq_max_msg_nums=header.pymq_max_msg_nums,
            pymq_deleted_below=header.pymq_deleted_below,
        )
        return PullHead(code, opaque, header, flag)

    def _learn(self, payload: bytes, end: int, template: _Template) -> PullMessageHeader | None:
        """Decode the whole header, and keep it under the bytes around the varying values."""
        try:
            fields = decode_binary_header(payload[4:end], b"").ext
            header = msgspec.convert(fields, PullMessageHeader, strict=False)
        except (ProtocolViolation, msgspec.ValidationError):
            return None
        if _template_of(fields) != template:
            return None  # what was found stands inside of another field, or a field stands there twice
        if sum(map(len, template)) <= _TEMPLATE_SIZE_MAX_BYTES:
            if len(self._known) >= _TEMPLATE_COUNT_MAX:
                self._known.clear()
            self._known[template] = header
        return header


def _places(payload: bytes, end: int, order: tuple[bytes, bytes, bytes]) -> list[tuple[int, int]] | None:
    """Return begin and end of the three values, if they stand in this order."""
    places = []
    at = _BINARY_FIELDS_AT
    for mark in order:
        at = payload.find(mark, at, end) + len(mark) + 1
        if at <= len(mark) or at > end:
            return None
        value_end = at + payload[at - 1]
        places.append((at, value_end))
        at = value_end
    return places if at <= end else None


def _template_of(fields: dict[str, str]) -> _Template | None:
    """Return the template of a header that has these fields, each of them once and none of them empty."""
    parts: list[bytes] = []
    part = b""
    for name, value in fields.items():
        raw_name, raw = name.encode(), value.encode()
        part += len(raw_name).to_bytes(2, "big") + raw_name + len(raw).to_bytes(4, "big")
        if name in ("queueId", "queueOffset", "commitOffset"):
            parts.append(part[:-1])
            part = b""
        else:
            part += raw
    return (parts[0], parts[1], parts[2], part) if len(parts) == 3 else None

"""HTTP/2's frames as bytes, its settings and its errors. No I/O.

    0        3      4       5           9
    +--------+------+-------+-----------+=========+
    | length | type | flags | stream id | payload |
    +--------+------+-------+-----------+=========+
      3 bytes  1      1       31 bits     length

Source: RFC 9113, sections 4 to 7.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = struct.Struct(">IBI")  # length and type in one number, flags, stream id
HEAD_BYTES = HEAD.size
PAYLOAD_BYTES_MAX = 16 * 1024  # what every peer takes; PyMQ takes no more
PAYLOAD_BYTES_LIMIT = 2**24 - 1
WINDOW_BYTES_MAX = 2**31 - 1
SETTINGS_COUNT_MAX = 64  # of one frame; HTTP/2 has 6
WINDOW_BYTES = 65_535  # before any setting
STREAM_ID_MASK = 2**31 - 1

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

END_STREAM = 0x1
ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20

_SETTING = struct.Struct(">HI")


class ErrorCode(IntEnum):
    """Why a stream is reset or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class Setting(IntEnum):
    """What a peer says of itself."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class Http2Error(Exception):
    """A peer broke a rule: the connection ends with ``code``."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class StreamError(Exception):
    """A peer broke a rule within a stream: the stream ends with ``code``, others go on."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def pack_frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return HEAD.pack(len(payload) << 8 | kind, flags, stream_id) + payload


def pack_settings(settings: Mapping[Setting, int]) -> bytes:
    """Return a SETTINGS frame."""
    return pack_frame(SETTINGS, 0, 0, b"".join([_SETTING.pack(*each) for each in settings.items()]))


def parse_settings(payload: bytes) -> list[tuple[int, int]]:
    """Return the settings of a frame, unknown ones too. Raises Http2Error for values that no peer may have."""
    if len(payload) % _SETTING.size:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"SETTINGS has {len(payload)} bytes, no multiple of 6")
    if len(payload) > SETTINGS_COUNT_MAX * _SETTING.size:
        text = f"SETTINGS has {len(payload) // _SETTING.size} values, the limit is {SETTINGS_COUNT_MAX}: send less"
        raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, text)
    found = list(_SETTING.iter_unpack(payload))
    for name, value in found:
        if name == Setting.ENABLE_PUSH and value > 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"ENABLE_PUSH is {value}: 0 or 1")
        if name == Setting.INITIAL_WINDOW_SIZE and value > WINDOW_BYTES_MAX:
            text = f"INITIAL_WINDOW_SIZE is {value}, the limit is {WINDOW_BYTES_MAX}"
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, text)
        if name == Setting.MAX_FRAME_SIZE and not PAYLOAD_BYTES_MAX <= value <= PAYLOAD_BYTES_LIMIT:
            text = f"MAX_FRAME_SIZE is {value}: {PAYLOAD_BYTES_MAX} to {PAYLOAD_BYTES_LIMIT}"
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, text)
    return found


def pack_window_update(stream_id: int, size_bytes: int) -> bytes:
    """Return a WINDOW_UPDATE frame."""
    return pack_frame(WINDOW_UPDATE, 0, stream_id, size_bytes.to_bytes(4, "big"))


def pack_reset(stream_id: int, code: ErrorCode) -> bytes:
    """Return an RST_STREAM frame."""
    return pack_frame(RST_STREAM, 0, stream_id, code.to_bytes(4, "big"))


def pack_go_away(last_stream_id: int, code: ErrorCode, text: str = "") -> bytes:
    """Return a GOAWAY frame. ``text`` is for people who look for the reason."""
    return pack_frame(GOAWAY, 0, 0, struct.pack(">II", last_stream_id, code) + text.encode())


def without_padding(payload: bytes, flags: int) -> bytes:
    """Return a payload without its padding. Raises Http2Error when that is longer than the payload."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a frame's padding is longer than its payload")
    return payload[1 : len(payload) - payload[0]]


def check_size(name: str, payload: bytes, size: int) -> None:
    """Check the size of a payload that is always the same. Raises Http2Error."""
    if len(payload) != size:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"{name} has {len(payload)} bytes, not {size}")


def check_of_connection(name: str, stream_id: int) -> None:
    """Check that a frame is the connection's. Raises Http2Error."""
    if stream_id:
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"{name} of the stream {stream_id}: it is the connection's")

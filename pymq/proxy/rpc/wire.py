"""What gRPC adds to HTTP/2: statuses, the prefix of messages, timeouts, metadata. No I/O.

Source: the gRPC project's document "gRPC over HTTP2".
"""

from __future__ import annotations

import re
import struct
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from enum import IntEnum
from urllib.parse import quote

PREFIX = struct.Struct(">BI")  # whether the message is compressed, and its length
CONTENT_TYPE = b"application/grpc"
# Encodings of compressed messages, and what zlib calls their window.
ENCODINGS = {b"gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
IDENTITY = b"identity"

_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])")
_UNITS_MS = {b"H": 3_600_000, b"M": 60_000, b"S": 1_000, b"m": 1, b"u": 1e-3, b"n": 1e-6}
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


class GrpcCode(IntEnum):
    """The status of a call."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class GrpcError(Exception):
    """Ends a call with this status."""

    def __init__(self, code: GrpcCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def frame_message(data: bytes) -> bytes:
    """Return a message with its prefix."""
    return PREFIX.pack(0, len(data)) + data


class MessageParser:
    """Cuts messages out of the bytes of one call, as ``(is_compressed, message)``."""

    __slots__ = ("_buffer", "_count_max", "_size_max", "found")

    def __init__(self, size_max: int, count_max: int) -> None:
        """``count_max``: of messages that nobody has taken; 1 for a call that has one request."""
        self.found: deque[tuple[bool, bytes]] = deque()
        self._buffer = bytearray()
        self._size_max = size_max
        self._count_max = count_max

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Raises GrpcError for a message over the limit, as soon as its prefix is there."""
        buffer, found = self._buffer, self.found
        if not buffer and len(data) >= PREFIX.size and len(found) < self._count_max:
            is_compressed, size = PREFIX.unpack_from(data)
            if len(data) == PREFIX.size + size <= self._size_max:  # one whole message, as most are
                found.append((bool(is_compressed), data[PREFIX.size :]))
                return
        buffer += data
        while len(buffer) >= PREFIX.size:
            if len(found) >= self._count_max:
                raise _too_many(self._count_max)
            is_compressed, size = PREFIX.unpack_from(buffer)
            if size > self._size_max:
                text = f"the message has {size} bytes, the limit is {self._size_max}: send less at once"
                raise GrpcError(GrpcCode.RESOURCE_EXHAUSTED, text)
            end = PREFIX.size + size
            if len(buffer) < end:
                return
            found.append((bool(is_compressed), bytes(memoryview(buffer)[PREFIX.size : end])))
            del buffer[:end]

    @property
    def is_complete(self) -> bool:
        """Whether no part of a message is left."""
        return not self._buffer


def _too_many(count_max: int) -> GrpcError:
    if count_max == 1:
        return GrpcError(GrpcCode.INTERNAL, "the call has more than one request: send one")
    text = f"{count_max} requests of the call wait to be read, the limit: wait for answers"
    return GrpcError(GrpcCode.RESOURCE_EXHAUSTED, text)


class Inflation:
    """A compressed message's content, piece by piece, so that its size is known before it is there."""

    def __init__(self, data: bytes, encoding: bytes, size_max: int) -> None:
        """Raise GrpcError for an unknown encoding."""
        window = ENCODINGS.get(encoding)
        if window is None:
            known = ", ".join(name.decode() for name in ENCODINGS)
            text = f"the encoding {encoding.decode('ascii', 'replace')!r:.40} is not known here: use {known}, or none"
            raise GrpcError(GrpcCode.UNIMPLEMENTED, text)
        self._stream = zlib.decompressobj(window)
        self._left = data
        self._size_max = size_max
        self._content = b""

    def inflate(self, more_bytes: int) -> bytes | None:
        """Return the content, None when it has more than ``more_bytes`` beside what is inflated: call it again.

        Raises GrpcError for damaged content, and for content over the limit.
        """
        room = self._size_max - len(self._content)
        try:
            piece = self._stream.decompress(self._left, min(more_bytes, room + 1))
        except zlib.error as error:
            raise GrpcError(GrpcCode.INTERNAL, f"the message can't be inflated: {error}") from None
        self._left = self._stream.unconsumed_tail
        self._content = self._content + piece if self._content else piece
        if len(piece) > room:
            text = f"the message has more than {self._size_max} bytes when inflated, the limit: send less at once"
            raise GrpcError(GrpcCode.RESOURCE_EXHAUSTED, text)
        if self._stream.eof:
            return self._content
        if len(piece) == more_bytes:
            return None
        raise GrpcError(GrpcCode.INTERNAL, "the message can't be inflated: its end is missing")

    def inflate_all(self) -> bytes:
        """Return the content. Raises GrpcError as :meth:`inflate`."""
        content = self.inflate(self._size_max + 1)
        assert content is not None
        return content


def parse_timeout_ms(text: bytes) -> float:
    """Return the milliseconds of ``grpc-timeout``, such as ``b"15S"``. Raises GrpcError."""
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        shown = text.decode("ascii", "replace")
        raise GrpcError(GrpcCode.INTERNAL, f"grpc-timeout is {shown!r:.40}: write digits and a unit, such as 15S")
    return int(found[1]) * _UNITS_MS[found[2]]


def encode_text(text: str) -> bytes:
    """Return the value of ``grpc-message``: bytes that are not printable are percent-encoded."""
    return quote(text, safe=_PRINTABLE).encode()


class Metadata(Mapping[str, str]):
    """What the client's program said, as text. Names are lower case. Only values that are asked for are decoded."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[bytes, bytes]) -> None:
        self._fields = fields

    def __getitem__(self, name: str) -> str:
        return self._fields[name.encode()].decode("utf-8", "replace")

    def __iter__(self) -> Iterator[str]:
        """Yield the names of fields, without HTTP's and gRPC's own fields, and without binary values."""
        for name in self._fields:
            if not name.startswith((b":", b"grpc-")) and not name.endswith(b"-bin"):
                yield name.decode("ascii", "replace")

    def __len__(self) -> int:
        return sum(1 for _ in self)

"""Splits a byte stream into frames, under a size limit."""

from __future__ import annotations

from pymq.errors import ProtocolViolation
from pymq.wire.command import FRAME_SIZE_MAX_BYTES

# Smaller reads are joined first: as an object of its own, a byte would cost 40 bytes.
_PART_SIZE_MIN_BYTES = 16 * 1024
_HTTP_ANSWER = b"HTTP"
# How each connection of HTTP begins, where a frame has its size. The last one is of HTTP/2.
HTTP_BEGINS = frozenset(
    {_HTTP_ANSWER, b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC", b"TRAC", b"PRI "}
)
TLS_HELLO = 0x1603  # how every TLS connection begins: a handshake record of a version 3.x


class FrameBuffer:
    """Collects received bytes and returns whole payloads (frames without their 4-byte length).

    It holds what has arrived and no more. ``pending_size_bytes`` is the number of bytes received of a frame that is not
    complete yet.
    """

    __slots__ = ("_parts", "_small", "_wanted", "pending_size_bytes", "size_max_bytes")

    def __init__(self, size_max_bytes: int = FRAME_SIZE_MAX_BYTES) -> None:
        self.size_max_bytes = size_max_bytes
        self._parts: list[bytes] = []
        self._small = bytearray()  # what follows the parts
        self.pending_size_bytes = 0
        self._wanted = 4  # bytes needed before the next frame can be complete

    def clear(self) -> None:
        """Drop the frame that is not complete yet."""
        self._parts = []
        self._small = bytearray()
        self.pending_size_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Add ``data`` and return all payloads that are complete now, in order.

        Raises ProtocolViolation for an impossible length.
        """
        frames: list[bytes] = []
        at, end = 0, len(data)
        if self.pending_size_bytes:
            missing = self._wanted - self.pending_size_bytes
            if end < missing:
                self._add(data)
                return frames
            if self._wanted > 4:
                frames.append(self._end(data[:missing]))
                at = missing
            else:
                data = bytes(self._small) + data
                end = len(data)
            self.clear()
        wanted = 4
        while end - at >= 4:
            size = int.from_bytes(data[at : at + 4], "big")
            if size > self.size_max_bytes or size < 4:
                self._check_size(size)
            wanted = 4 + size
            stop = at + wanted
            if stop > end:
                break
            frames.append(data[at + 4 : stop])
            at = stop
            wanted = 4
        rest = data[at:] if at else data
        self._wanted = wanted
        if rest:
            self._add(rest)
        return frames

    def _end(self, data: bytes) -> bytes:
        """Return the payload that ``data`` ends. Its bytes are copied once, however many they are."""
        pieces: list[bytes | bytearray] = [*self._parts, self._small, data]
        return b"".join((memoryview(pieces[0])[4:], *pieces[1:]))

    def _add(self, data: bytes) -> None:
        self.pending_size_bytes += len(data)
        if len(data) < _PART_SIZE_MIN_BYTES:
            self._small += data
            if len(self._small) < _PART_SIZE_MIN_BYTES:
                return
            data = b""
        if self._small:
            self._parts.append(bytes(self._small))
            self._small = bytearray()
        if data:
            self._parts.append(data)

    def _check_size(self, size: int) -> None:
        signed = size - 0x1_0000_0000 if size & 0x8000_0000 else size
        if size >> 16 == TLS_HELLO:
            raise ProtocolViolation("tls-hello", "it begins with TLS, and this port has no certificate for that")
        if (first := size.to_bytes(4, "big")) in HTTP_BEGINS:
            raise ProtocolViolation("http", _http_text(first))
        raise ProtocolViolation(
            "frame-length",
            f"a frame of {signed} bytes, allowed are 4 to {self.size_max_bytes}; the connection is closed",
        )


def _http_text(first: bytes) -> str:
    if first == _HTTP_ANSWER:
        return (
            "it answers in HTTP: this port is a web server's, as a console's, a proxy's or that of metrics, and not a "
            "name server's or broker's"
        )
    return (
        "it speaks HTTP, and this port takes RocketMQ's protocol alone: the console, metrics and gRPC have ports of "
        "their own"
    )

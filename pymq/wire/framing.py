"""Splits a byte stream into frames, under a size limit."""

from __future__ import annotations

from pymq.errors import ProtocolViolation
from pymq.wire.command import FRAME_SIZE_MAX_BYTES


class FrameBuffer:
    """Collects received bytes and returns whole payloads (frames without their 4-byte length)."""

    __slots__ = ("_pending", "_pending_size", "_wanted", "size_max_bytes")

    def __init__(self, size_max_bytes: int = FRAME_SIZE_MAX_BYTES) -> None:
        self.size_max_bytes = size_max_bytes
        self._pending = bytearray()  # not a list of reads: single bytes would cost 40 times their size
        self._pending_size = 0
        self._wanted = 4  # bytes needed before the next frame can be complete

    @property
    def pending_size_bytes(self) -> int:
        """The number of bytes received of a frame that is not complete yet."""
        return self._pending_size

    def feed(self, data: bytes) -> list[bytes]:
        """Adds ``data`` and returns all payloads that are complete now, in order.

        Raises ProtocolViolation for an impossible length.
        """
        if self._pending_size:
            self._pending += data
            self._pending_size += len(data)
            if self._pending_size < self._wanted:
                return []
            data = bytes(self._pending)
            self._pending = bytearray()
        frames: list[bytes] = []
        at, end = 0, len(data)
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
        self._pending_size = len(rest)
        self._wanted = wanted
        if rest:
            self._pending += rest
        return frames

    def _check_size(self, size: int) -> None:
        signed = size - 0x1_0000_0000 if size & 0x8000_0000 else size
        raise ProtocolViolation(
            "frame-length",
            f"a frame of {signed} bytes, allowed are 4 to {self.size_max_bytes}; the connection is closed",
        )

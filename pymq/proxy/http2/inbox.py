"""Inbox: the bytes that came on a connection, cut into frames. Pieces of any size cost no more than whole frames."""

from __future__ import annotations

from collections import deque

from pymq.proxy.http2.frames import (
    HEAD,
    HEAD_BYTES,
    PAYLOAD_BYTES_MAX,
    PREFACE,
    STREAM_ID_MASK,
    ErrorCode,
    Http2Error,
)

Frame = tuple[int, int, int, bytes]  # kind, flags, stream id, payload


class Inbox:
    """What came and is not taken."""

    __slots__ = ("_at", "_later", "_piece", "size_bytes")

    def __init__(self) -> None:
        self.size_bytes = 0
        self._piece = b""  # the first one, and the place of its first frame
        self._at = 0
        self._later: deque[bytes] = deque()

    def receive(self, data: bytes) -> None:
        """Keep what came."""
        self.size_bytes += len(data)
        if self._piece or self._later:
            self._later.append(data)
        else:
            self._piece = data

    def clear(self) -> None:
        """Forget all."""
        self.size_bytes, self._piece, self._at = 0, b"", 0
        self._later.clear()

    def take_preface(self) -> bool:
        """Take what every client begins with. Return False while a part is missing. Raises Http2Error."""
        self._piece = b"".join([self._piece, *self._later])
        self._later.clear()
        if not self._piece.startswith(PREFACE[: len(self._piece)]):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "it does not begin as HTTP/2 does")
        if len(self._piece) < len(PREFACE):
            return False
        self._piece = self._piece[len(PREFACE) :]
        self.size_bytes -= len(PREFACE)
        return True

    def take(self) -> Frame | None:
        """Take the next frame; None while a part is missing. Raises Http2Error for one that is too long."""
        while True:
            piece, at = self._piece, self._at
            left_bytes = len(piece) - at
            if left_bytes >= HEAD_BYTES:
                length, flags, stream_id = HEAD.unpack_from(piece, at)
                kind, length = length & 0xFF, length >> 8
                if length > PAYLOAD_BYTES_MAX:
                    text = f"a frame has {length} bytes, the limit is {PAYLOAD_BYTES_MAX}"
                    raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, text)
                size = HEAD_BYTES + length
                if size <= left_bytes:
                    self.size_bytes -= size
                    if size == left_bytes:
                        self._piece, self._at = b"", 0
                    else:
                        self._at = at + size
                    return kind, flags, stream_id & STREAM_ID_MASK, piece[at + HEAD_BYTES : at + size]
            if not self._later:
                return None
            data = self._later.popleft()
            self._piece, self._at = piece[at:] + data if left_bytes else data, 0

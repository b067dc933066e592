"""A slave's end of an HA connection that keeps what it is sent."""

from __future__ import annotations

from pymq.wire.streams import Stream


class Taker:
    """A :class:`~pymq.wire.streams.StreamHandler`."""

    def __init__(self) -> None:
        self.data = b""
        self.is_closed = False
        self._stream: Stream | None = None

    def write(self, data: bytes) -> None:
        assert self._stream is not None
        self._stream.write(data)

    def opened(self, stream: Stream) -> None:
        self._stream = stream

    def received(self, data: bytes) -> None:
        self.data += data

    def writable(self) -> None: ...

    def closed(self, why: str) -> None:
        self.is_closed = True

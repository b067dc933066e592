"""An owner of an Http2Connection that notes what happens, and takes all data at once."""

from __future__ import annotations

from typing import Any

from pymq.proxy.http2.connection import Http2Connection
from pymq.proxy.http2.fields import encode_fields
from pymq.proxy.http2.frames import PREFACE, Setting, pack_settings

HEAD = encode_fields([(b":status", b"200"), (b"content-type", b"application/grpc")])
TRAILERS = encode_fields([(b"grpc-status", b"0")])
ANSWER = b"answer"
RECEIVE_WINDOW_BYTES = 200_000
STREAM_RECEIVE_WINDOW_BYTES = 80_000
STREAMS_MAX = 5
FIELDS_BYTES_MAX = 8_192
SETTINGS = {Setting.MAX_CONCURRENT_STREAMS: STREAMS_MAX, Setting.INITIAL_WINDOW_SIZE: STREAM_RECEIVE_WINDOW_BYTES}
GREETING = PREFACE + pack_settings({})


class RecordingOwner:
    """``answers``: whether each request is answered as soon as it has ended."""

    def __init__(self, *, answers: bool = False) -> None:
        self.requests: dict[int, dict[bytes, bytes]] = {}
        self.data: dict[int, bytes] = {}
        self.ended: list[int] = []
        self.reset: list[int] = []
        self.openings = 0
        self._answers = answers
        self.http = Http2Connection(self, SETTINGS, RECEIVE_WINDOW_BYTES, FIELDS_BYTES_MAX)

    def request_received(self, stream_id: int, fields: dict[bytes, bytes], size_bytes: int, is_ended: bool) -> None:
        assert size_bytes <= FIELDS_BYTES_MAX
        self.requests[stream_id] = fields
        if is_ended:
            self.request_ended(stream_id)

    def request_data(self, stream_id: int, data: bytes, size_bytes: int) -> None:
        assert stream_id in self.requests and stream_id not in self.ended + self.reset
        self.data[stream_id] = self.data.get(stream_id, b"") + data
        self.http.release_window(stream_id, size_bytes)

    def request_ended(self, stream_id: int) -> None:
        self.ended.append(stream_id)
        if self._answers and not self.http.send_answer(stream_id, HEAD, ANSWER, TRAILERS):
            self.http.send_fields(stream_id, HEAD)
            if self.http.window_of(stream_id) >= len(ANSWER):
                self.http.send_data(stream_id, ANSWER)
            self.http.send_fields(stream_id, TRAILERS, is_end=True)

    def stream_reset(self, stream_id: int) -> None:
        self.reset.append(stream_id)

    def window_opened(self, stream_id: int) -> None:
        self.openings += 1

    def give(self, data: bytes) -> bytes:
        """Have bytes handled, and return what is written. Raises Http2Error."""
        self.http.receive(data)
        while self.http.work(3):
            pass
        return self.http.take_output()

    def greet(self) -> RecordingOwner:
        """Exchange what stands before all else."""
        self.http.begin()
        self.give(GREETING)
        return self


def request_fields(**more: Any) -> list[tuple[bytes, bytes]]:
    """Return the fields of a request; ``more`` with _ for - replaces some, None leaves one out."""
    fields = {":method": b"POST", ":scheme": b"http", ":path": b"/S/M", ":authority": b"a", "te": b"trailers"}
    fields |= {name.replace("_", "-"): value for name, value in more.items()}
    return [(name.encode(), value) for name, value in fields.items() if value is not None]

"""Http2Connection: the server's side of one HTTP/2 connection, from bytes to bytes. No I/O.

What comes is kept until ``work`` handles it; what goes out, until ``take_output``. A client that breaks a rule in
a stream has that stream reset; one that breaks the connection's rules gets a GOAWAY, and ``work`` raises Http2Error.

Source: RFC 9113. Priorities are read past, and nothing is ever pushed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pymq.proxy.http2 import frames
from pymq.proxy.http2.fields import NO_TABLE, FieldDecoder, Fields, check_request, check_trailers
from pymq.proxy.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    HAS_PRIORITY,
    HEAD,
    PAYLOAD_BYTES_MAX,
    STREAM_ID_MASK,
    WINDOW_BYTES,
    WINDOW_BYTES_MAX,
    ErrorCode,
    Http2Error,
    Setting,
    StreamError,
    check_of_connection,
    check_size,
    pack_frame,
)
from pymq.proxy.http2.inbox import Inbox

CONTINUATIONS_MAX = 64  # of one block of fields
RESETS_KEPT_MAX = 256  # streams that this side ended first: what their clients had sent before is no mistake


class Http2Owner(Protocol):
    """What happens on a connection, in the order in which it does."""

    def request_received(self, stream_id: int, fields: dict[bytes, bytes], size_bytes: int, is_ended: bool) -> None:
        """Hear of a new stream. ``size_bytes``: of its fields, as HTTP/2 counts; ``is_ended``: no data follows."""

    def request_data(self, stream_id: int, data: bytes, size_bytes: int) -> None:
        """Take data of a stream, and release ``size_bytes`` of its window when it may send more."""

    def request_ended(self, stream_id: int) -> None:
        """Hear that a client sends no more on a stream."""

    def stream_reset(self, stream_id: int) -> None:
        """Hear that a stream is over, by the client's will or because of its mistake."""

    def window_opened(self, stream_id: int) -> None:
        """Hear that more may be sent than before on a stream; 0: on all."""


class _Stream:
    """An open stream. Windows in bytes: that for requests is ``receive_window``.

    That for answers is the initial one of all streams and ``send_change``, so one number changes it for all.
    """

    __slots__ = ("is_ended", "left_bytes", "receive_window", "released", "send_change")

    def __init__(self, receive_window: int, left_bytes: int | None, is_ended: bool) -> None:
        self.send_change = 0
        self.receive_window = receive_window
        self.released = 0  # of the receive window, and not announced yet
        self.left_bytes = left_bytes  # of its content-length; None for none
        self.is_ended = is_ended  # by the client


class Http2Connection:
    """One connection of a client."""

    __slots__ = (
        "_block",
        "_block_flags",
        "_block_id",
        "_continuations",
        "_decoder",
        "_ended",
        "_has_preface",
        "_has_settings",
        "_inbox",
        "_initial_receive_window",
        "_initial_send_window",
        "_largest_change",
        "_output",
        "_owner",
        "_receive_window",
        "_receive_window_bytes",
        "_released",
        "_says_no_table",
        "_send_window",
        "_settings",
        "_streams",
        "_streams_max",
        "frame_bytes_max",
        "last_stream_id",
    )

    def __init__(
        self, owner: Http2Owner, settings: Mapping[Setting, int], window_bytes: int, fields_bytes_max: int
    ) -> None:
        """``settings`` of this side; ``window_bytes``: the receive window of all streams together.

        ``fields_bytes_max``: of one request; a larger one ends the connection.
        """
        self.frame_bytes_max = PAYLOAD_BYTES_MAX  # of the client
        self.last_stream_id = 0  # of the client's newest stream
        self._owner = owner
        self._settings = settings
        self._streams_max = settings.get(Setting.MAX_CONCURRENT_STREAMS, WINDOW_BYTES_MAX)
        self._initial_receive_window = settings.get(Setting.INITIAL_WINDOW_SIZE, WINDOW_BYTES)
        self._receive_window_bytes = self._receive_window = window_bytes
        self._released = 0
        self._send_window = self._initial_send_window = WINDOW_BYTES
        self._largest_change = 0  # of a stream's window for answers, or more
        self._decoder = FieldDecoder(fields_bytes_max)
        self._streams: dict[int, _Stream] = {}
        self._ended: dict[int, None] = {}  # streams that this side ended first, the oldest first
        self._inbox = Inbox()
        self._output: list[bytes] = []
        self._has_preface = self._has_settings = False
        self._block: bytearray | None = None  # of fields that are not whole
        self._block_id = self._block_flags = self._continuations = 0
        self._says_no_table = True  # the next block of fields begins with NO_TABLE

    def begin(self) -> None:
        """Say what this side takes."""
        self._output.append(frames.pack_settings(self._settings))
        if self._receive_window_bytes > WINDOW_BYTES:
            self._output.append(frames.pack_window_update(0, self._receive_window_bytes - WINDOW_BYTES))

    # -- what comes ------------------------------------------------------------------------------------------------

    @property
    def inbox_bytes(self) -> int:
        """The size of what came and is not handled."""
        return self._inbox.size_bytes

    @property
    def has_preface(self) -> bool:
        """Whether the client has shown that it speaks HTTP/2."""
        return self._has_preface

    def receive(self, data: bytes) -> None:
        """Keep what came."""
        self._inbox.receive(data)

    def drop_input(self) -> None:
        """Forget what came and is not handled: the connection is over."""
        self._inbox.clear()

    def work(self, frames_max: int) -> bool:
        """Handle whole frames, so many at most. Return whether there may be more. Raises Http2Error."""
        inbox = self._inbox
        try:
            if not self._has_preface:
                if not inbox.take_preface():
                    return False
                self._has_preface = True
            take = inbox.take
            for _ in range(frames_max):
                frame = take()
                if frame is None:
                    return False
                self._handle(*frame)
        except Http2Error as error:
            inbox.clear()
            self.go_away(error.code, str(error))
            raise
        return bool(inbox.size_bytes)

    def _handle(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is not None and (kind != frames.CONTINUATION or stream_id != self._block_id):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "another frame comes within a block of fields")
        if not self._has_settings:
            if kind != frames.SETTINGS or flags & ACK:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            self._has_settings = True
        handler = _HANDLERS.get(kind)
        if handler is None:
            return
        try:
            handler(self, flags, stream_id, payload)
        except StreamError as error:
            self._fail(stream_id, error.code)

    def _fail(self, stream_id: int, code: ErrorCode) -> None:
        """End a stream because of the client's mistake."""
        is_open = stream_id in self._streams
        self.reset(stream_id, code)
        if is_open:
            self._owner.stream_reset(stream_id)

    def _headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id % 2:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a client can't have the stream {stream_id}")
        block = frames.without_padding(payload, flags)
        if flags & HAS_PRIORITY:
            if len(block) < 5:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "HEADERS is too short for its priority")
            depends_on, block = int.from_bytes(block[:4], "big") & STREAM_ID_MASK, block[5:]
            if depends_on == stream_id:
                flags |= _IS_WRONG
        if flags & END_HEADERS:
            self._fields(flags, stream_id, block)
        else:
            self._block, self._block_id, self._block_flags, self._continuations = bytearray(block), stream_id, flags, 0

    def _continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        block = self._block
        if block is None:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "CONTINUATION continues nothing")
        self._continuations += 1
        if self._continuations > CONTINUATIONS_MAX:
            text = f"a block of fields has more than {CONTINUATIONS_MAX} frames, the limit: send less"
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, text)
        block += payload
        if flags & END_HEADERS:
            self._block = None
            self._fields(self._block_flags, stream_id, bytes(block))

    def _fields(self, flags: int, stream_id: int, block: bytes) -> None:
        """Take a whole block of fields. It is decoded in any case: later ones build on it."""
        fields = self._decoder.decode(block)
        if flags & _IS_WRONG:
            self.last_stream_id = max(self.last_stream_id, stream_id)
            raise StreamError(ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")
        if stream_id > self.last_stream_id:
            self.last_stream_id = stream_id
            self._new_stream(stream_id, fields, bool(flags & END_STREAM))
            return
        stream = self._streams.get(stream_id)
        if stream is None:
            if stream_id in self._ended:
                return
            raise Http2Error(ErrorCode.STREAM_CLOSED, f"fields for the stream {stream_id}, which is over")
        if stream.is_ended:
            raise StreamError(ErrorCode.STREAM_CLOSED, "fields behind the end of a request")
        if not flags & END_STREAM:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, "fields within a request")
        check_trailers(fields)
        self._end_request(stream_id, stream)

    def _new_stream(self, stream_id: int, fields: Fields, is_ended: bool) -> None:
        if len(self._streams) >= self._streams_max:
            raise StreamError(ErrorCode.REFUSED_STREAM, f"there are {self._streams_max} streams, the limit")
        found = check_request(fields)
        length = found.get(b"content-length")
        if length is not None and not (length.isdigit() and len(length) < 19):
            raise StreamError(ErrorCode.PROTOCOL_ERROR, f"content-length is {length!r:.40}")
        left_bytes = None if length is None else int(length)
        if is_ended and left_bytes:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, "a request ends before its content-length")
        self._streams[stream_id] = _Stream(self._initial_receive_window, left_bytes, is_ended)
        self._owner.request_received(stream_id, found, self._decoder.size_bytes, is_ended)

    def _data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self._check_known(stream_id)
        data = frames.without_padding(payload, flags)
        self._receive_window -= size
        if self._receive_window < 0:
            text = f"{-self._receive_window} bytes come beyond the connection's window"
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, text)
        stream = self._streams.get(stream_id)
        if stream is None or stream.is_ended:
            self.release_window(stream_id, size)
            if stream_id in self._ended:
                return
            raise StreamError(ErrorCode.STREAM_CLOSED, "data behind the end of a request")
        stream.receive_window -= size
        if stream.receive_window < 0 or (stream.left_bytes is not None and len(data) > stream.left_bytes):
            self.release_window(stream_id, size)
            if stream.receive_window < 0:
                raise StreamError(ErrorCode.FLOW_CONTROL_ERROR, "data beyond the stream's window")
            raise StreamError(ErrorCode.PROTOCOL_ERROR, "a request has more data than its content-length")
        if stream.left_bytes is not None:
            stream.left_bytes -= len(data)
        if size:
            self._owner.request_data(stream_id, data, size)
        if flags & END_STREAM and self._streams.get(stream_id) is stream:
            self._end_request(stream_id, stream)

    def _end_request(self, stream_id: int, stream: _Stream) -> None:
        if stream.left_bytes:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, "a request ends before its content-length")
        stream.is_ended = True
        self._owner.request_ended(stream_id)

    def _priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PRIORITY of no stream")
        if len(payload) != 5:
            raise StreamError(ErrorCode.FRAME_SIZE_ERROR, f"PRIORITY has {len(payload)} bytes")
        if int.from_bytes(payload[:4], "big") & STREAM_ID_MASK == stream_id:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")

    def _rst_stream(self, flags: int, stream_id: int, payload: bytes) -> None:
        check_size("RST_STREAM", payload, 4)
        self._check_known(stream_id)
        if self._streams.pop(stream_id, None) is not None:
            self._owner.stream_reset(stream_id)

    def _settings_frame(self, flags: int, stream_id: int, payload: bytes) -> None:
        check_of_connection("SETTINGS", stream_id)
        if flags & ACK:
            check_size("the answer to SETTINGS", payload, 0)
            return
        before = self._initial_send_window
        for name, value in frames.parse_settings(payload):
            if name == Setting.MAX_FRAME_SIZE:
                self.frame_bytes_max = value
            elif name == Setting.INITIAL_WINDOW_SIZE:
                self._set_initial_window(value)
        if self._initial_send_window > before:
            self._owner.window_opened(0)
        self._output.append(_SETTINGS_TAKEN)

    def _set_initial_window(self, size_bytes: int) -> None:
        """Change the windows of all streams for answers, at no cost for each. Raises Http2Error."""
        self._initial_send_window = size_bytes
        if size_bytes + self._largest_change > WINDOW_BYTES_MAX:  # the largest one may be of a stream that is over
            self._largest_change = max([0, *[stream.send_change for stream in self._streams.values()]])
            if size_bytes + self._largest_change > WINDOW_BYTES_MAX:
                raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "a stream's window is over the limit")

    def _push_promise(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a client can't push")

    def _ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        check_of_connection("PING", stream_id)
        check_size("PING", payload, 8)
        if not flags & ACK:
            self._output.append(pack_frame(frames.PING, ACK, 0, payload))

    def _go_away(self, flags: int, stream_id: int, payload: bytes) -> None:
        """Read past a good-bye: a client's calls that are under way go on."""
        check_of_connection("GOAWAY", stream_id)
        if len(payload) < 8:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"GOAWAY has {len(payload)} bytes")

    def _window_update(self, flags: int, stream_id: int, payload: bytes) -> None:
        check_size("WINDOW_UPDATE", payload, 4)
        more = int.from_bytes(payload, "big") & STREAM_ID_MASK
        if stream_id:
            self._check_known(stream_id)
            if not more:
                raise StreamError(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE adds nothing")
            stream = self._streams.get(stream_id)
            if stream is None:
                return
            stream.send_change += more
            if stream.send_change > self._largest_change:
                if self._initial_send_window + stream.send_change > WINDOW_BYTES_MAX:
                    raise StreamError(ErrorCode.FLOW_CONTROL_ERROR, "a stream's window is over the limit")
                self._largest_change = stream.send_change
        else:
            if not more:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE adds nothing")
            self._send_window += more
            if self._send_window > WINDOW_BYTES_MAX:
                raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window is over the limit")
        self._owner.window_opened(stream_id)

    def _check_known(self, stream_id: int) -> None:
        if not stream_id or stream_id > self.last_stream_id or not stream_id % 2:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a frame for the stream {stream_id}, which was never opened")

    # -- what goes -------------------------------------------------------------------------------------------------

    def take_output(self) -> bytes:
        """Return what is to be written, and forget it."""
        output, self._output = self._output, []
        return output[0] if len(output) == 1 else b"".join(output)

    def window_of(self, stream_id: int) -> int:
        """Return how many bytes of data may be sent on a stream now; 0 for one that is over."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else min(self._initial_send_window + stream.send_change, self._send_window)

    def send_fields(self, stream_id: int, block: bytes, *, is_end: bool = False) -> None:
        """Send an encoded block of fields. ``is_end``: nothing follows on the stream. No word on one that is over."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        if self._says_no_table:
            self._says_no_table = False
            block = NO_TABLE + block
        kind, flags = frames.HEADERS, END_STREAM if is_end else 0
        while len(block) > PAYLOAD_BYTES_MAX:
            self._output.append(pack_frame(kind, flags, stream_id, block[:PAYLOAD_BYTES_MAX]))
            kind, flags, block = frames.CONTINUATION, 0, block[PAYLOAD_BYTES_MAX:]
        self._output.append(pack_frame(kind, flags | END_HEADERS, stream_id, block))
        if is_end:
            if stream.is_ended:
                del self._streams[stream_id]
            else:
                self.reset(stream_id, ErrorCode.NO_ERROR)

    def send_data(self, stream_id: int, data: bytes) -> None:
        """Send data that the windows have room for, of ``frame_bytes_max`` at most."""
        size = len(data)
        self._streams[stream_id].send_change -= size
        self._send_window -= size
        self._output.append(HEAD.pack(size << 8, 0, stream_id))
        self._output.append(data)

    def send_answer(self, stream_id: int, head: bytes, data: bytes, trailers: bytes) -> bool:
        """Send a whole answer: a block of fields, its data, and a last block. Return False for one to send in parts."""
        stream, size = self._streams.get(stream_id), len(data)
        if (
            stream is None
            or not stream.is_ended
            or self._says_no_table
            or size > self._initial_send_window + stream.send_change
            or size > self._send_window
            or size > PAYLOAD_BYTES_MAX
        ):
            return False
        self._send_window -= size
        self._output += (
            HEAD.pack(len(head) << 8 | frames.HEADERS, END_HEADERS, stream_id),
            head,
            HEAD.pack(size << 8, 0, stream_id),
            data,
            HEAD.pack(len(trailers) << 8 | frames.HEADERS, END_HEADERS | END_STREAM, stream_id),
            trailers,
        )
        del self._streams[stream_id]
        return True

    def release_window(self, stream_id: int, size_bytes: int) -> None:
        """Let the client send so much more."""
        self._released += size_bytes
        if 2 * self._released >= self._receive_window_bytes:
            self._output.append(frames.pack_window_update(0, self._released))
            self._receive_window += self._released
            self._released = 0
        stream = self._streams.get(stream_id)
        if stream is None or stream.is_ended:
            return
        stream.released += size_bytes
        if 2 * stream.released >= self._initial_receive_window:
            self._output.append(frames.pack_window_update(stream_id, stream.released))
            stream.receive_window += stream.released
            stream.released = 0

    def reset(self, stream_id: int, code: ErrorCode) -> None:
        """End a stream at once."""
        self._streams.pop(stream_id, None)
        self._ended[stream_id] = None
        if len(self._ended) > RESETS_KEPT_MAX:
            del self._ended[next(iter(self._ended))]
        self._output.append(frames.pack_reset(stream_id, code))

    def ping(self, data: bytes) -> None:
        """Ask for a sign of life. ``data`` has 8 bytes."""
        self._output.append(pack_frame(frames.PING, 0, 0, data))

    def go_away(self, code: ErrorCode = ErrorCode.NO_ERROR, text: str = "") -> None:
        """Say that no stream beyond the newest one is served."""
        self._output.append(frames.pack_go_away(self.last_stream_id, code, text))


_IS_WRONG = 0x100  # beside a frame's own flags: its stream depends on itself
_SETTINGS_TAKEN = pack_frame(frames.SETTINGS, ACK, 0)


_HANDLERS = {
    frames.DATA: Http2Connection._data,
    frames.HEADERS: Http2Connection._headers,
    frames.PRIORITY: Http2Connection._priority,
    frames.RST_STREAM: Http2Connection._rst_stream,
    frames.SETTINGS: Http2Connection._settings_frame,
    frames.PUSH_PROMISE: Http2Connection._push_promise,
    frames.PING: Http2Connection._ping,
    frames.GOAWAY: Http2Connection._go_away,
    frames.WINDOW_UPDATE: Http2Connection._window_update,
    frames.CONTINUATION: Http2Connection._continuation,
}

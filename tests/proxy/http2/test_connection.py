"""HTTP/2's rules: what keeps them is understood as the library h2 does, and each broken one has its error."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.proxy.http2 import frames
from pymq.proxy.http2.connection import CONTINUATIONS_MAX, RESETS_KEPT_MAX, Http2Connection
from pymq.proxy.http2.fields import encode_fields
from pymq.proxy.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    HAS_PRIORITY,
    PADDED,
    PAYLOAD_BYTES_MAX,
    PREFACE,
    SETTINGS_COUNT_MAX,
    WINDOW_BYTES,
    WINDOW_BYTES_MAX,
    ErrorCode,
    Http2Error,
    Setting,
    pack_frame,
    pack_settings,
    pack_window_update,
)
from tests.proxy.http2.recording import (
    ANSWER,
    FIELDS_BYTES_MAX,
    GREETING,
    HEAD,
    RECEIVE_WINDOW_BYTES,
    STREAM_RECEIVE_WINDOW_BYTES,
    STREAMS_MAX,
    TRAILERS,
    RecordingOwner,
    request_fields,
)

REQUEST = encode_fields(request_fields())
OPEN = pack_frame(frames.HEADERS, END_HEADERS, 1, REQUEST)
WHOLE = pack_frame(frames.HEADERS, END_HEADERS | END_STREAM, 1, REQUEST)


def resets(written: bytes) -> list[tuple[int, int]]:
    """Return the streams that are reset, and why."""
    return [(stream, int.from_bytes(payload, "big")) for kind, stream, payload in parsed(written) if kind == 3]


def parsed(written: bytes) -> list[tuple[int, int, bytes]]:
    """Return frames as kind, stream and payload."""
    found = []
    while written:
        length, _, stream_id = frames.HEAD.unpack_from(written)
        end = frames.HEAD_BYTES + (length >> 8)
        found.append((length & 0xFF, stream_id, written[frames.HEAD_BYTES : end]))
        written = written[end:]
    return found


CONNECTION_ERRORS: dict[str, tuple[bytes, ErrorCode]] = {
    "padding longer than data": (OPEN + pack_frame(frames.DATA, PADDED, 1, b"\x01"), ErrorCode.PROTOCOL_ERROR),
    "padding without a length": (OPEN + pack_frame(frames.DATA, PADDED, 1, b""), ErrorCode.PROTOCOL_ERROR),
    "data of no stream": (pack_frame(frames.DATA, 0, 0, b"a"), ErrorCode.PROTOCOL_ERROR),
    "data of an idle stream": (OPEN + pack_frame(frames.DATA, 0, 3, b"a"), ErrorCode.PROTOCOL_ERROR),
    "a stream of servers": (pack_frame(frames.HEADERS, END_HEADERS, 2, REQUEST), ErrorCode.PROTOCOL_ERROR),
    "no stream": (pack_frame(frames.HEADERS, END_HEADERS, 0, REQUEST), ErrorCode.PROTOCOL_ERROR),
    "a short priority": (pack_frame(frames.HEADERS, HAS_PRIORITY, 1, b"abcd"), ErrorCode.FRAME_SIZE_ERROR),
    "an older stream": (
        pack_frame(frames.HEADERS, END_HEADERS, 3, REQUEST) + OPEN,
        ErrorCode.STREAM_CLOSED,
    ),
    "fields that can't be decoded": (pack_frame(frames.HEADERS, END_HEADERS, 1, b"\x80"), ErrorCode.COMPRESSION_ERROR),
    "CONTINUATION of nothing": (pack_frame(frames.CONTINUATION, END_HEADERS, 1, b""), ErrorCode.PROTOCOL_ERROR),
    "another stream within fields": (
        pack_frame(frames.HEADERS, 0, 1, REQUEST) + pack_frame(frames.CONTINUATION, END_HEADERS, 3, b""),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "a frame within fields": (
        pack_frame(frames.HEADERS, 0, 1, REQUEST) + pack_frame(frames.PING, 0, 0, bytes(8)),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "an unknown frame within fields": (
        pack_frame(frames.HEADERS, 0, 1, REQUEST) + pack_frame(0xBB, 0, 1, b""),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "too many CONTINUATION": (
        pack_frame(frames.HEADERS, 0, 1) + pack_frame(frames.CONTINUATION, 0, 1) * (CONTINUATIONS_MAX + 1),
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "fields beyond the limit": (
        pack_frame(frames.HEADERS, END_HEADERS, 1, encode_fields(request_fields(x=b"v" * FIELDS_BYTES_MAX))),
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "PRIORITY of no stream": (pack_frame(frames.PRIORITY, 0, 0, bytes(5)), ErrorCode.PROTOCOL_ERROR),
    "RST_STREAM of no stream": (pack_frame(frames.RST_STREAM, 0, 0, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    "RST_STREAM of an idle stream": (pack_frame(frames.RST_STREAM, 0, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    "RST_STREAM of a server's stream": (
        pack_frame(frames.HEADERS, END_HEADERS, 3, REQUEST) + pack_frame(frames.RST_STREAM, 0, 2, bytes(4)),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "RST_STREAM's size": (OPEN + pack_frame(frames.RST_STREAM, 0, 1, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
    "SETTINGS of a stream": (pack_frame(frames.SETTINGS, 0, 1), ErrorCode.PROTOCOL_ERROR),
    "SETTINGS' size": (pack_frame(frames.SETTINGS, 0, 0, bytes(5)), ErrorCode.FRAME_SIZE_ERROR),
    "an answer to SETTINGS with any": (pack_frame(frames.SETTINGS, ACK, 0, bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
    "ENABLE_PUSH": (pack_settings({Setting.ENABLE_PUSH: 2}), ErrorCode.PROTOCOL_ERROR),
    "INITIAL_WINDOW_SIZE": (
        pack_settings({Setting.INITIAL_WINDOW_SIZE: WINDOW_BYTES_MAX + 1}),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "a small MAX_FRAME_SIZE": (
        pack_settings({Setting.MAX_FRAME_SIZE: PAYLOAD_BYTES_MAX - 1}),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "a large MAX_FRAME_SIZE": (pack_settings({Setting.MAX_FRAME_SIZE: 2**24}), ErrorCode.PROTOCOL_ERROR),
    "windows that SETTINGS opens too far": (
        OPEN
        + pack_window_update(1, WINDOW_BYTES_MAX - WINDOW_BYTES)
        + pack_settings({Setting.INITIAL_WINDOW_SIZE: WINDOW_BYTES + 1}),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "more SETTINGS than there can be": (
        pack_frame(frames.SETTINGS, 0, 0, bytes(6 * (SETTINGS_COUNT_MAX + 1))),
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "PUSH_PROMISE": (OPEN + pack_frame(frames.PUSH_PROMISE, END_HEADERS, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    "PING of a stream": (pack_frame(frames.PING, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    "PING's size": (pack_frame(frames.PING, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
    "GOAWAY of a stream": (pack_frame(frames.GOAWAY, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    "GOAWAY's size": (pack_frame(frames.GOAWAY, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
    "WINDOW_UPDATE's size": (pack_frame(frames.WINDOW_UPDATE, 0, 0, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
    "WINDOW_UPDATE of nothing": (pack_window_update(0, 0), ErrorCode.PROTOCOL_ERROR),
    "WINDOW_UPDATE of an idle stream": (pack_window_update(1, 1), ErrorCode.PROTOCOL_ERROR),
    "the connection's window": (
        pack_window_update(0, WINDOW_BYTES_MAX - WINDOW_BYTES + 1),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "a frame over the limit": (
        struct.pack(">IBI", PAYLOAD_BYTES_MAX + 1 << 8, 0, 1),
        ErrorCode.FRAME_SIZE_ERROR,
    ),
}


@pytest.mark.parametrize("name", CONNECTION_ERRORS)
def test_what_ends_the_connection(name: str) -> None:
    data, code = CONNECTION_ERRORS[name]
    owner = RecordingOwner().greet()
    with pytest.raises(Http2Error) as caught:
        owner.give(data)
    assert caught.value.code == code
    assert not owner.http.inbox_bytes
    kind, stream_id, payload = parsed(owner.http.take_output())[-1]
    assert (kind, stream_id) == (frames.GOAWAY, 0)
    assert payload[4:8] == code.to_bytes(4, "big") and payload[8:].decode() == str(caught.value)


def test_what_does_not_begin_as_http_2_does() -> None:
    for wrong in (b"GET / HTTP/1.1", b"\xff", PREFACE[:-1] + b"x"):
        owner = RecordingOwner()
        with pytest.raises(Http2Error, match="does not begin"):
            owner.give(wrong)
    for first in (pack_frame(frames.PING, 0, 0, bytes(8)), pack_frame(frames.SETTINGS, ACK, 0)):
        with pytest.raises(Http2Error, match="the first frame is not SETTINGS"):
            RecordingOwner().give(PREFACE + first)
    slow = RecordingOwner()
    for byte in PREFACE:
        assert not slow.http.has_preface
        slow.give(bytes([byte]))
    assert slow.http.has_preface


def data_of(size: int, flags: int = 0, stream_id: int = 1) -> bytes:
    return b"".join(
        [
            pack_frame(
                frames.DATA,
                flags if at + PAYLOAD_BYTES_MAX >= size else 0,
                stream_id,
                bytes(min(PAYLOAD_BYTES_MAX, size - at)),
            )
            for at in range(0, size, PAYLOAD_BYTES_MAX)
        ]
    )


STREAM_ERRORS: dict[str, tuple[bytes, ErrorCode]] = {
    "data behind the end": (WHOLE + data_of(1), ErrorCode.STREAM_CLOSED),
    "fields behind the end": (WHOLE + WHOLE, ErrorCode.STREAM_CLOSED),
    "fields within data": (OPEN + OPEN, ErrorCode.PROTOCOL_ERROR),
    "no request": (
        pack_frame(frames.HEADERS, END_HEADERS, 1, encode_fields(request_fields(te=b"x"))),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "pseudo-fields behind data": (
        OPEN + pack_frame(frames.HEADERS, END_HEADERS | END_STREAM, 1, REQUEST),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "it depends on itself": (
        pack_frame(frames.HEADERS, END_HEADERS | HAS_PRIORITY, 1, b"\0\0\0\1\0" + REQUEST),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "PRIORITY on itself": (OPEN + pack_frame(frames.PRIORITY, 0, 1, b"\0\0\0\1\0"), ErrorCode.PROTOCOL_ERROR),
    "PRIORITY's size": (OPEN + pack_frame(frames.PRIORITY, 0, 1, bytes(4)), ErrorCode.FRAME_SIZE_ERROR),
    "WINDOW_UPDATE of nothing": (OPEN + pack_window_update(1, 0), ErrorCode.PROTOCOL_ERROR),
    "the stream's window": (
        OPEN + pack_window_update(1, WINDOW_BYTES_MAX - WINDOW_BYTES + 1),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "content-length that is no number": (
        pack_frame(frames.HEADERS, END_HEADERS, 1, encode_fields(request_fields(content_length=b"-1"))),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "less than content-length": (
        pack_frame(frames.HEADERS, END_HEADERS, 1, encode_fields(request_fields(content_length=b"3")))
        + data_of(2, END_STREAM),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "nothing of content-length": (
        pack_frame(frames.HEADERS, END_HEADERS | END_STREAM, 1, encode_fields(request_fields(content_length=b"3"))),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "more than content-length in several frames": (
        pack_frame(frames.HEADERS, END_HEADERS, 1, encode_fields(request_fields(content_length=b"3"))) + data_of(2) * 2,
        ErrorCode.PROTOCOL_ERROR,
    ),
    "more than content-length": (
        pack_frame(frames.HEADERS, END_HEADERS, 1, encode_fields(request_fields(content_length=b"3"))) + data_of(4),
        ErrorCode.PROTOCOL_ERROR,
    ),
}


@pytest.mark.parametrize("name", STREAM_ERRORS)
def test_what_ends_a_stream_alone(name: str) -> None:
    data, code = STREAM_ERRORS[name]
    owner = RecordingOwner().greet()
    assert resets(owner.give(data)) == [(1, code)]
    assert owner.reset == ([1] if 1 in owner.requests else [])
    assert resets(owner.give(data_of(1))) == [], "what was under way is no further mistake"
    owner.give(pack_frame(frames.HEADERS, END_HEADERS | END_STREAM, 3, REQUEST))
    assert owner.ended[-1] == 3


def test_windows_of_what_clients_send() -> None:
    class Keeping(RecordingOwner):
        def request_data(self, stream_id: int, data: bytes, size_bytes: int) -> None:
            self.data[stream_id] = self.data.get(stream_id, b"") + data

    owner = Keeping().greet()
    assert resets(owner.give(OPEN + data_of(STREAM_RECEIVE_WINDOW_BYTES))) == []
    assert resets(owner.give(data_of(1))) == [(1, ErrorCode.FLOW_CONTROL_ERROR)]
    owner.give(pack_frame(frames.HEADERS, END_HEADERS, 3, REQUEST) + data_of(STREAM_RECEIVE_WINDOW_BYTES, stream_id=3))
    owner.http.release_window(3, STREAM_RECEIVE_WINDOW_BYTES // 2 - 1)
    assert owner.http.take_output() == b""
    owner.http.release_window(3, 1)
    assert owner.http.take_output() == pack_window_update(3, STREAM_RECEIVE_WINDOW_BYTES // 2)
    rest = RECEIVE_WINDOW_BYTES - 2 * STREAM_RECEIVE_WINDOW_BYTES - 1
    owner.give(data_of(rest, stream_id=3))
    with pytest.raises(Http2Error, match="1 bytes come beyond the connection's window"):
        owner.give(data_of(1, stream_id=3))
    given = RecordingOwner().greet()
    written = given.give(OPEN + data_of(STREAM_RECEIVE_WINDOW_BYTES) + data_of(STREAM_RECEIVE_WINDOW_BYTES))
    updates = [(stream, payload) for kind, stream, payload in parsed(written) if kind == frames.WINDOW_UPDATE]
    assert (
        sum(int.from_bytes(payload, "big") for stream, payload in updates if stream == 1) >= STREAM_RECEIVE_WINDOW_BYTES
    )
    assert [stream for stream, _ in updates].count(0) == 1


def test_streams_beyond_the_limit_are_refused() -> None:
    owner = RecordingOwner().greet()
    opened = [pack_frame(frames.HEADERS, END_HEADERS, 2 * number + 1, REQUEST) for number in range(STREAMS_MAX + 1)]
    assert resets(owner.give(b"".join(opened))) == [(2 * STREAMS_MAX + 1, ErrorCode.REFUSED_STREAM)]
    owner.give(pack_frame(frames.RST_STREAM, 0, 1, bytes(4)))
    assert owner.reset == [1]
    assert resets(owner.give(pack_frame(frames.HEADERS, END_HEADERS, 2 * STREAMS_MAX + 3, REQUEST))) == []


def test_windows_of_answers() -> None:
    owner = RecordingOwner().greet()
    owner.give(WHOLE)
    owner.http.send_fields(1, HEAD)
    assert owner.http.window_of(1) == WINDOW_BYTES
    owner.http.send_data(1, bytes(PAYLOAD_BYTES_MAX))
    assert owner.http.window_of(1) == WINDOW_BYTES - PAYLOAD_BYTES_MAX
    owner.give(pack_settings({Setting.INITIAL_WINDOW_SIZE: 10, Setting.MAX_FRAME_SIZE: 20_000}))
    assert owner.http.window_of(1) == 10 - PAYLOAD_BYTES_MAX and owner.http.frame_bytes_max == 20_000
    owner.give(pack_window_update(1, 100_000))
    assert owner.http.window_of(1) == WINDOW_BYTES - PAYLOAD_BYTES_MAX, "the connection's"
    owner.give(pack_window_update(0, 100_000))
    assert owner.http.window_of(1) == 100_010 - PAYLOAD_BYTES_MAX
    assert owner.openings == 2, "a smaller window opens nothing"
    owner.http.send_fields(1, TRAILERS, is_end=True)
    assert owner.http.window_of(1) == 0
    owner.http.send_fields(1, TRAILERS)
    assert len(parsed(owner.http.take_output())) == 1, "a stream that is over gets no word"


def test_as_many_settings_as_the_limit_count() -> None:
    owner = RecordingOwner().greet()
    owner.give(
        pack_frame(frames.SETTINGS, 0, 0, pack_settings({Setting.INITIAL_WINDOW_SIZE: 7})[9:] * SETTINGS_COUNT_MAX)
    )
    owner.give(WHOLE)
    assert owner.http.window_of(1) == 7


@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.just("initial"), st.just(0), st.sampled_from([0, 1, 10, WINDOW_BYTES, 2**30, WINDOW_BYTES_MAX])
            ),
            st.tuples(st.just("more"), st.integers(0, 3), st.sampled_from([1, 10, 2**30, WINDOW_BYTES_MAX])),
            st.tuples(st.just("reset"), st.integers(0, 3), st.just(0)),
            st.tuples(st.just("send"), st.integers(0, 3), st.integers(1, 100)),
        ),
        max_size=40,
    )
)
def test_windows_are_those_of_a_plain_count(steps: list[tuple[str, int, int]]) -> None:
    """A change of all windows costs nothing for each stream; a plain count of each stream's window gives the same."""
    owner = RecordingOwner().greet()
    owner.give(pack_window_update(0, WINDOW_BYTES_MAX - WINDOW_BYTES))
    for number in range(4):
        owner.give(pack_frame(frames.HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, REQUEST))
    initial, windows, left = WINDOW_BYTES, dict.fromkeys((1, 3, 5, 7), WINDOW_BYTES), WINDOW_BYTES_MAX
    for kind, number, size in steps:
        stream_id = 2 * number + 1
        if kind == "initial":
            windows = {each: window + size - initial for each, window in windows.items()}
            initial = size
            if any(window > WINDOW_BYTES_MAX for window in windows.values()):
                with pytest.raises(Http2Error):
                    owner.give(pack_settings({Setting.INITIAL_WINDOW_SIZE: size}))
                return
            owner.give(pack_settings({Setting.INITIAL_WINDOW_SIZE: size}))
        elif kind == "more" and stream_id in windows:
            windows[stream_id] += size
            found = resets(owner.give(pack_window_update(stream_id, size)))
            if windows[stream_id] > WINDOW_BYTES_MAX:
                assert found == [(stream_id, ErrorCode.FLOW_CONTROL_ERROR)]
                del windows[stream_id]
        elif kind == "reset" and stream_id in windows:
            owner.give(pack_frame(frames.RST_STREAM, 0, stream_id, bytes(4)))
            del windows[stream_id]
        elif kind == "send" and windows.get(stream_id, 0) >= size:
            owner.http.send_data(stream_id, bytes(size))
            windows[stream_id] -= size
            left -= size
        for each in (1, 3, 5, 7):
            assert owner.http.window_of(each) == (min(windows[each], left) if each in windows else 0)


def test_an_answer_goes_at_once_or_in_parts() -> None:
    owner = RecordingOwner().greet()
    owner.give(WHOLE)
    assert not owner.http.send_answer(1, HEAD, b"a", TRAILERS), "the first fields of a connection say more"
    owner.http.send_fields(1, HEAD)
    owner.http.send_fields(1, TRAILERS, is_end=True)
    for stream_id, size in ((3, WINDOW_BYTES_MAX), (5, PAYLOAD_BYTES_MAX + 1), (7, PAYLOAD_BYTES_MAX), (9, 1)):
        ends = END_STREAM if stream_id != 9 else 0
        owner.give(pack_frame(frames.HEADERS, END_HEADERS | ends, stream_id, REQUEST))
        data = bytes(min(size, 2 * WINDOW_BYTES))
        assert owner.http.send_answer(stream_id, HEAD, data, TRAILERS) == (stream_id == 7)
    assert not owner.http.send_answer(11, HEAD, b"a", TRAILERS), "there is no such stream"
    answers = []
    for stream_id in (13, 15, 17, 19):
        owner.give(pack_frame(frames.HEADERS, END_HEADERS | END_STREAM, stream_id, REQUEST))
        answers.append(owner.http.send_answer(stream_id, HEAD, bytes(PAYLOAD_BYTES_MAX), TRAILERS))
    assert answers == [True, True, False, False], "the window of the connection has room for three with the first one"


def test_the_first_of_two_ends_is_remembered_up_to_a_limit() -> None:
    """A client may send on while it does not know that its stream is over."""
    owner = RecordingOwner().greet()
    count = RESETS_KEPT_MAX + 1
    for number in range(count):
        owner.give(pack_frame(frames.HEADERS, END_HEADERS, 2 * number + 1, REQUEST))
        owner.http.send_fields(2 * number + 1, HEAD, is_end=True)
    owner.http.take_output()
    assert resets(owner.give(data_of(1, stream_id=3))) == []
    assert owner.give(pack_frame(frames.HEADERS, END_HEADERS | END_STREAM, 3, TRAILERS)) == b""
    assert resets(owner.give(data_of(1, stream_id=1))) == [(1, ErrorCode.STREAM_CLOSED)]
    assert not owner.data


def test_padding_is_no_data() -> None:
    owner = RecordingOwner().greet()
    owner.give(pack_frame(frames.HEADERS, END_HEADERS | PADDED, 1, b"\x02" + REQUEST + b"\x82\x82"))
    owner.give(pack_frame(frames.DATA, PADDED | END_STREAM, 1, b"\x03data\0\0\0"))
    assert owner.requests == {1: dict(request_fields())} and owner.data == {1: b"data"}


def test_what_has_no_meaning_here_is_read_past() -> None:
    owner = RecordingOwner().greet()
    nothing = [
        pack_frame(0xEE, 0xFF, 77, b"unknown"),
        pack_settings({}) + pack_frame(frames.SETTINGS, ACK, 0),
        pack_frame(frames.SETTINGS, 0, 0, struct.pack(">HI", 0x99, 7)),
        pack_frame(frames.PRIORITY, 0, 9, bytes(5)),
        pack_frame(frames.GOAWAY, 0, 0, bytes(8)),
        pack_frame(frames.PING, ACK, 0, bytes(8)),
        WHOLE,
        pack_window_update(1, 1),
    ]
    written = owner.give(b"".join(nothing))
    assert written == pack_frame(frames.SETTINGS, ACK, 0) * 2
    assert owner.give(pack_frame(frames.PING, 0, 0, b"12345678")) == pack_frame(frames.PING, ACK, 0, b"12345678")
    owner.http.go_away()
    assert parsed(owner.http.take_output()) == [(frames.GOAWAY, 0, struct.pack(">II", 1, 0))]


def test_long_fields_go_in_several_frames() -> None:
    owner = RecordingOwner().greet()
    client = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    client.initiate_connection()
    client.send_headers(1, request_fields(), end_stream=True)
    owner.give(client.data_to_send()[len(PREFACE) :])
    text = b"t" * (2 * PAYLOAD_BYTES_MAX + 5)
    owner.http.send_fields(1, HEAD + encode_fields([(b"grpc-message", text)]), is_end=True)
    (answer,) = [each for each in client.receive_data(owner.http.take_output()) if isinstance(each, ResponseReceived)]
    assert dict(answer.headers)[b"grpc-message"] == text


# -- the same as h2 ----------------------------------------------------------------------------------------------------

ACTIONS = st.one_of(
    st.tuples(st.just("open"), st.booleans(), st.binary(max_size=20), st.integers(0, 3)),
    st.tuples(st.just("data"), st.integers(0, 4), st.integers(0, 40_000), st.booleans()),
    st.tuples(st.just("trailers"), st.integers(0, 4)),
    st.tuples(st.just("reset"), st.integers(0, 4)),
    st.tuples(st.just("ping")),
    st.tuples(st.just("window"), st.integers(1, 100_000)),
    st.tuples(st.just("settings"), st.integers(0, 200_000)),
)


class H2Side:
    """A server of the library h2 that notes what happens as RecordingOwner does."""

    def __init__(self) -> None:
        self.http = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self.requests: dict[int, dict[bytes, bytes]] = {}
        self.data: dict[int, bytes] = {}
        self.ended: list[int] = []
        self.reset: list[int] = []

    def give(self, data: bytes) -> None:
        for event in self.http.receive_data(data):
            match event:
                case RequestReceived():
                    self.requests[event.stream_id] = dict(event.headers)
                case DataReceived():
                    if event.flow_controlled_length:
                        self.data[event.stream_id] = self.data.get(event.stream_id, b"") + event.data
                        self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case StreamEnded():
                    self.ended.append(event.stream_id)
                case StreamReset():
                    self.reset.append(event.stream_id)


def client_bytes(actions: list[tuple[Any, ...]], server: RecordingOwner) -> bytes:
    """Return what a client of the library h2 sends that keeps the rules, and give it to ``server``."""
    client = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    client.initiate_connection()
    streams: list[int] = []
    sent = b""

    def exchange() -> None:
        nonlocal sent
        data = client.data_to_send()
        sent += data
        client.receive_data(server.give(data))

    exchange()
    for name, *details in actions:
        stream_id = streams[details[0] % len(streams)] if streams and name in ("data", "trailers", "reset") else None
        if name == "open" and client.open_outbound_streams < STREAMS_MAX:
            ends, value, how = details
            stream_id = client.get_next_available_stream_id()
            fields = request_fields(x_value=value.hex().encode())
            weight = 7 if how == 1 else None
            client.send_headers(stream_id, fields, end_stream=ends, priority_weight=weight)
            if not ends:
                streams.append(stream_id)
        elif name == "data" and stream_id is not None:
            size = min(client.local_flow_control_window(stream_id), client.max_outbound_frame_size, details[1])
            padding = 3 if details[1] % 2 and size > 4 else None
            client.send_data(stream_id, bytes(max(size - 4, 0)), end_stream=details[2], pad_length=padding)
            if details[2]:
                streams.remove(stream_id)
        elif name == "trailers" and stream_id is not None:
            client.send_headers(stream_id, [(b"x-last", b"1")], end_stream=True)
            streams.remove(stream_id)
        elif name == "reset" and stream_id is not None:
            client.reset_stream(stream_id, ErrorCodes.CANCEL)
            streams.remove(stream_id)
        elif name == "ping":
            client.ping(b"12345678")
        elif name == "window":
            client.increment_flow_control_window(details[0])
        elif name == "settings":
            client.update_settings({0x4: details[0]})
        exchange()
    return sent


@settings(deadline=None)
@given(st.lists(ACTIONS, max_size=25), st.lists(st.integers(1, 5_000), min_size=1, max_size=20), st.booleans())
def test_what_keeps_the_rules_means_the_same_to_h2(
    actions: list[tuple[Any, ...]], sizes: list[int], answers: bool
) -> None:
    owner = RecordingOwner(answers=answers)
    owner.http.begin()
    sent = client_bytes(actions, owner)
    reference = H2Side()
    reference.give(sent)
    assert (owner.requests, owner.data) == (reference.requests, reference.data)
    assert (owner.ended, owner.reset) == (reference.ended, reference.reset)
    in_pieces = RecordingOwner(answers=answers)
    in_pieces.http.begin()
    at = number = 0
    while at < len(sent):
        size = sizes[number % len(sizes)]
        in_pieces.give(sent[at : at + size])
        at, number = at + size, number + 1
    assert vars(in_pieces) | {"http": None, "openings": 0} == vars(owner) | {"http": None, "openings": 0}


def test_h2_understands_what_is_written() -> None:
    owner = RecordingOwner(answers=True)
    owner.http.begin()
    client = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    client.initiate_connection()
    client.update_settings({0x1: 0})  # no table of fields
    events = client.receive_data(owner.give(client.data_to_send()))
    for stream_id in (1, 3, 5):  # the first answer goes in parts
        client.send_headers(stream_id, request_fields(), end_stream=True)
        events += client.receive_data(owner.give(client.data_to_send()))
    assert [each.data for each in events if isinstance(each, DataReceived)] == [ANSWER] * 3
    assert [each.stream_id for each in events if isinstance(each, TrailersReceived)] == [1, 3, 5]
    assert not any(isinstance(each, ConnectionTerminated) for each in events)


def test_the_greeting_says_the_limits() -> None:
    owner = RecordingOwner()
    owner.http.begin()
    assert Http2Connection.__slots__, "2,000 connections are kept small"
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    client.receive_data(owner.give(GREETING))
    assert client.remote_settings.max_concurrent_streams == STREAMS_MAX
    assert client.remote_settings.initial_window_size == STREAM_RECEIVE_WINDOW_BYTES
    assert client.outbound_flow_control_window == RECEIVE_WINDOW_BYTES

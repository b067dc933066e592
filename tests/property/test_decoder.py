"""No bytes crash a decoder: it raises its own error or returns a value that can be encoded again.

The number of mutated frames is PYMQ_FUZZ_COUNT (default below), the seed PYMQ_FUZZ_SEED; both are printed.
"""

from __future__ import annotations

import os
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pymq.clock import ManualClock
from pymq.config import NamesrvConfig
from pymq.config.runtime import RuntimeSettings
from pymq.errors import ProtocolViolation, Refusal
from pymq.model import fastjson
from pymq.model.compression import InflateError, decompress_body
from pymq.model.record import MalformedRecordError, decode_batch, decode_record, decode_records
from pymq.namesrv.kv import KvConfig
from pymq.namesrv.routes import namesrv_routes
from pymq.namesrv.table import RouteTable
from pymq.wire.bodies_client import HeartbeatData, LockRequest, decode_body
from pymq.wire.bodies_registration import decode_registration
from pymq.wire.bodies_route import decode_cluster_info, decode_route
from pymq.wire.codes import CUT_CODES, RequestCode
from pymq.wire.command import (
    EXT_FIELD_COUNT_MAX,
    HEADER_SIZE_MAX_BYTES,
    SERIALIZE_JSON,
    SERIALIZE_ROCKETMQ,
    Command,
    decode_command,
    encode_command,
)
from pymq.wire.dispatch import Dispatcher
from pymq.wire.framing import FrameBuffer
from pymq.wire.header import decode_header
from tests.golden.frames import load_frames
from tests.golden.test_frames import REQUEST_HEADERS
from tests.namesrv.support import FakePeer
from tests.property.mutations import Mutator

FUZZ_COUNT = int(os.environ.get("PYMQ_FUZZ_COUNT", "60000"))
FUZZ_SEED = int(os.environ.get("PYMQ_FUZZ_SEED", "5331"))

PAYLOADS = [frame.payload for frame in load_frames()]
BODIES = [body for payload in PAYLOADS if (body := decode_command(payload).body)]


def decoded(payload: bytes) -> Command | str:
    """Return the command or the reason of a refusal; any other exception fails the test."""
    try:
        command = decode_command(payload)
    except ProtocolViolation as violation:
        return violation.reason
    assert len(command.ext) <= EXT_FIELD_COUNT_MAX
    assert all(type(k) is str and type(v) is str for k, v in command.ext.items())
    return command


def survives(command: Command) -> None:
    """Check that a decoded value survives a round trip."""
    again = decode_command(encode_command(command)[4:])
    if command.code in CUT_CODES.values():  # the binary form has no room for it: it is sent as JSON
        command.serialize = again.serialize
    assert again == command


def mutants(count: int, seed: int = FUZZ_SEED) -> Iterator[bytes]:
    mutator = Mutator(PAYLOADS, seed)
    for _ in range(count):
        yield mutator.mutate()


@given(st.binary(max_size=300))
def test_any_bytes_decode_or_are_refused(payload: bytes) -> None:
    command = decoded(payload)
    if isinstance(command, Command):
        survives(command)


@given(st.sampled_from([0, 1]), st.binary(max_size=200), st.binary(max_size=20))
@example(SERIALIZE_ROCKETMQ, (RequestCode.POP_MESSAGE & 0xFFFF).to_bytes(2, "big") + bytes(19), b"")
def test_any_header_bytes_decode_or_are_refused(kind: int, header: bytes, body: bytes) -> None:
    command = decoded(bytes([kind]) + len(header).to_bytes(3, "big") + header + body)
    if isinstance(command, Command):
        assert command.body == body
        survives(command)


@given(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.dictionaries(st.text(max_size=10), st.text(max_size=30), max_size=5),
    st.none() | st.text(max_size=20),
    st.binary(max_size=50),
    st.sampled_from([0, 1]),
)
@example(RequestCode.POP_MESSAGE & 0xFFFF, 0, {}, None, b"", SERIALIZE_ROCKETMQ)
def test_any_command_survives_a_round_trip(
    code: int, opaque: int, ext: dict[str, str], remark: str | None, body: bytes, serialize: int
) -> None:
    command = Command(code, opaque=opaque, ext=ext, remark=remark, body=body, serialize=serialize)
    again = decode_command(encode_command(command)[4:])
    if again.serialize != SERIALIZE_JSON:  # the binary form has no empty values
        command.ext = {name: value for name, value in ext.items() if value}
        command.remark = remark or None
        command.code = CUT_CODES.get(code, code)
    command.serialize = again.serialize
    assert again == command


@given(st.lists(st.binary(max_size=64), max_size=10))
@example([b"OPTI"])
@example([b"\x16\x03\x01\x00"])
@example([b"\x00\x00\x00\x03"])
def test_any_stream_is_split_or_refused(chunks: list[bytes]) -> None:
    buffer = FrameBuffer(size_max_bytes=1000)
    fed = 0
    try:
        for chunk in chunks:
            fed += len(chunk)
            assert all(4 <= len(payload) <= 1000 for payload in buffer.feed(chunk))
            assert buffer.pending_size_bytes <= min(fed, 1004)
    except ProtocolViolation as violation:
        assert violation.reason in {"frame-length", "http", "tls-hello"}


@pytest.mark.slow
def test_mutated_frames_decode_or_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    reasons: Counter[str] = Counter()
    for payload in mutants(FUZZ_COUNT):
        command = decoded(payload)
        if isinstance(command, str):
            reasons[command] += 1
            continue
        reasons["decoded"] += 1
        survives(command)
        header = REQUEST_HEADERS.get(command.code)
        if header is not None:
            try:
                decode_header(header, command.ext)
            except Refusal as refusal:
                assert refusal.code == 1
    with capsys.disabled():
        print(f"\n{FUZZ_COUNT} mutated frames (seed {FUZZ_SEED}), 0 crashes: {dict(reasons.most_common())}")
    assert reasons.total() == FUZZ_COUNT
    # The run is meaningful: it reached both outcomes and every part of the decoder.
    assert {"decoded", "header-length", "json-header", "binary-header", "serialize-type"} <= reasons.keys()


def test_mutated_frames_never_break_the_name_servers_handlers(capsys: pytest.CaptureFixture[str]) -> None:
    table, kv, config = RouteTable(ManualClock()), KvConfig(), NamesrvConfig()
    dispatcher = Dispatcher(namesrv_routes(table, kv, config, RuntimeSettings(config, lambda: 0)), "name server")
    codes = sorted(dispatcher.routes)
    peer = FakePeer()
    answers: Counter[int] = Counter()
    for number, payload in enumerate(mutants(FUZZ_COUNT // 3, FUZZ_SEED + 1)):
        command = decoded(payload)
        if isinstance(command, str):
            continue
        if number % 2:  # bodies and fields of other requests, sent to each of our codes
            command.code = codes[number % len(codes)]
        reply = dispatcher.dispatch(peer, command)
        assert reply is not None
        assert "failed inside" not in (reply.remark or ""), (command, command.body[:200], reply.remark)
        decode_command(encode_command(reply.to_command(command))[4:])
        answers[reply.code] += 1
    with capsys.disabled():
        print(f"\n{answers.total()} mutated requests handled, answers by code: {dict(answers.most_common())}")
    assert {0, 1, 3} <= answers.keys()


@pytest.mark.slow
def test_mutated_bodies_never_break_their_readers(capsys: pytest.CaptureFixture[str]) -> None:
    # A body in place of a frame: its first bytes are damaged as often as headers.
    mutator = Mutator(BODIES, FUZZ_SEED + 2)
    outcomes: Counter[str] = Counter()
    for number in range(FUZZ_COUNT // 3):
        body = mutator.mutate()
        packed = zlib.compress(body, 1) if number % 2 else body
        readers = (
            lambda: decode_records(body),  # noqa: B023 - called at once
            lambda: decode_batch(body),  # noqa: B023
            lambda: decode_record(body, 0, check_crc=True),  # noqa: B023
            lambda: fastjson.loads(body),  # noqa: B023
            lambda: decode_body(HeartbeatData, body),  # noqa: B023
            lambda: decode_body(LockRequest, body),  # noqa: B023
            lambda: decode_route(body),  # noqa: B023
            lambda: decode_cluster_info(body),  # noqa: B023
            lambda: decode_registration(body, compressed=False, version=479),  # noqa: B023
            lambda: decode_registration(packed, compressed=True, version=479),  # noqa: B023
            lambda: decompress_body(packed, 1 | (number % 8) << 8),  # noqa: B023
        )
        try:
            readers[number % len(readers)]()
            outcomes["read"] += 1
        except (MalformedRecordError, fastjson.JsonError, Refusal, InflateError) as error:
            outcomes[type(error).__name__] += 1
    with capsys.disabled():
        print(f"\n{outcomes.total()} mutated bodies read, 0 crashes: {dict(outcomes.most_common())}")
    assert {"read", "MalformedRecordError", "JsonError", "Refusal", "InflateError"} <= outcomes.keys()


@given(st.binary(max_size=200))
def test_any_bytes_are_fastjson_or_refused(raw: bytes) -> None:
    try:
        fastjson.loads(raw)
    except fastjson.JsonError:
        pass


@given(st.text(st.sampled_from('{}[]:,"0123456789.eE+-\\u tfn'), max_size=60))
def test_any_json_like_text_is_fastjson_or_refused(text: str) -> None:
    try:
        fastjson.loads(text)
    except fastjson.JsonError:
        pass


def peak_bytes(payload: bytes) -> int:
    """Return the peak memory that reading ``payload`` takes beside it."""
    tracemalloc.start()
    try:
        decoded(payload)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def json_header(inner: bytes) -> bytes:
    header = b'{"code":1,"opaque":1,' + inner + b"}"
    return len(header).to_bytes(4, "big") + header


FULL = HEADER_SIZE_MAX_BYTES - 100


@pytest.mark.parametrize(
    "inner",
    [
        b'"x":' + b"[" * FULL,
        b'"x":' + b'{"a":' * (FULL // 5),
        b'"x":[' + b"{}," * (FULL // 3) + b"{}]",
        b'"x":"' + b"{" * FULL + b'"',
        b'"x":"' + b'\\"' * (FULL // 2) + b'"',
        b'"x":' + b"9" * FULL,
        b'"extFields":{' + b'"k":"v",' * (FULL // 8) + b'"k":"v"}',
        b'"extFields":{"a":' + b"[" * 6 + b"0," * (FULL // 2) + b"0" + b"]" * 6 + b"}",
        b" " * FULL + b'"x":1',
    ],
    ids=lambda inner: repr(inner[:20]),
)
def test_the_largest_header_costs_bounded_memory(inner: bytes) -> None:
    assert peak_bytes(json_header(inner)) < 64 * HEADER_SIZE_MAX_BYTES


def test_nested_object_keys_cost_bounded_memory() -> None:
    bomb = b"{" * 40 + b'"a":1' + b"}:1" * 39 + b"}"
    tracemalloc.start()
    try:
        with pytest.raises(fastjson.JsonError):
            fastjson.loads(bomb)
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_large_body_must_be_strict_json() -> None:
    with pytest.raises(Refusal, match="strict JSON"):
        decode_body(HeartbeatData, b"{" + b"0:0," * 300_000 + b"0:0}")
    with pytest.raises(fastjson.JsonError, match="strict JSON"):
        fastjson.loads(b"{0:0}", odd_size_max_bytes=4)


def test_a_frame_in_single_bytes_is_joined_once() -> None:
    frame = (100_000).to_bytes(4, "big") + bytes(100_000)
    buffer = FrameBuffer()
    tracemalloc.start()
    try:
        payloads = [p for at in range(0, len(frame), 2) for p in buffer.feed(frame[at : at + 2])]
        assert tracemalloc.get_traced_memory()[1] < 8 * len(frame)
    finally:
        tracemalloc.stop()
    assert payloads == [bytes(100_000)]

"""Every captured frame survives a round trip, and its fields and body fit the typed classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pymq.model import fastjson
from pymq.model.record import decode_batch, decode_records, encode_batch_entry, encode_message
from pymq.model.route import TopicRoute
from pymq.wire import bodies_admin as admin_bodies
from pymq.wire import bodies_client as client_bodies
from pymq.wire import bodies_registration as registration_bodies
from pymq.wire import bodies_route as route_bodies
from pymq.wire.admin_text import encode_whole
from pymq.wire.command import decode_command, encode_command
from pymq.wire.framing import FrameBuffer
from pymq.wire.header import Header, decode_header, encode_header
from pymq.wire.headers import admin, client, offset, pull, route, send
from tests.golden.frames import Frame, load_frames

FRAMES = load_frames()

REQUEST_HEADERS: dict[int, type[Header]] = {
    10: send.SendMessageHeader,
    11: pull.PullMessageHeader,
    12: pull.QueryMessageHeader,
    14: offset.QueryConsumerOffsetHeader,
    15: offset.UpdateConsumerOffsetHeader,
    17: admin.CreateTopicHeader,
    29: offset.SearchOffsetHeader,
    30: offset.QueueOffsetHeader,
    31: offset.QueueOffsetHeader,
    32: offset.QueueOffsetHeader,
    33: pull.ViewMessageHeader,
    35: client.UnregisterClientHeader,
    36: send.ConsumerSendMsgBackHeader,
    38: client.ConsumerGroupHeader,
    40: client.ConsumerGroupHeader,
    100: route.PutKvHeader,
    101: route.KvKeyHeader,
    102: route.KvKeyHeader,
    103: route.RegisterBrokerHeader,
    105: route.RouteHeader,
    202: admin.TopicHeader,
    203: admin.ConsumerConnectionsHeader,
    204: admin.ProducerConnectionsHeader,
    205: route.BrokerNameHeader,
    207: admin.DeleteGroupHeader,
    208: admin.ConsumeStatsHeader,
    215: admin.DeleteTopicHeader,
    216: route.DeleteTopicInNamesrvHeader,
    222: admin.ResetOffsetHeader,
    300: admin.TopicHeader,
    307: admin.ConsumerRunningInfoHeader,
    310: send.SendMessageV2Header,
    315: admin.StatsDataHeader,
    320: send.SendMessageV2Header,
    321: admin.QueryConsumeQueueHeader,
    325: send.SendMessageV2Header,
    327: route.BrokerNameHeader,
    351: admin.GetTopicConfigHeader,
    361: pull.PullMessageHeader,
}
# Requests without named fields of their own, and requests this version doesn't serve.
WITHOUT_HEADER = {25, 28, 34, 41, 42, 46, 106, 200, 206, 306, 316, 319, 328, 400, 401, 907, 200151}
NOT_TYPED = {37, 39, 326, 370, 200050, 200051, 200053, 200054}

ANSWER_HEADERS: dict[int, type[Header]] = {
    10: send.SendMessageAnswer,
    11: pull.PullMessageAnswer,
    12: pull.QueryMessageAnswer,
    14: offset.OffsetAnswer,
    29: offset.OffsetAnswer,
    30: offset.OffsetAnswer,
    31: offset.OffsetAnswer,
    32: offset.TimestampAnswer,
    101: route.KvValueAnswer,
    103: route.RegisterBrokerAnswer,
    205: route.WipeWritePermAnswer,
    310: send.SendMessageAnswer,
    320: send.SendMessageAnswer,
    325: send.SendMessageAnswer,
    327: route.AddWritePermAnswer,
    361: pull.PullMessageAnswer,
}

MESSAGE_ANSWERS = {11, 12, 33, 361, 200050}

REQUEST_BODIES: dict[int, Any] = {
    34: client_bodies.HeartbeatData,
    41: client_bodies.LockRequest,
    42: client_bodies.LockRequest,
    103: registration_bodies.RegisterBody,
}
ANSWER_BODIES: dict[int, Any] = {
    38: client_bodies.ConsumerListAnswer,
    41: client_bodies.LockAnswer,
    105: TopicRoute,
    106: route_bodies.ClusterInfo,
    202: admin_bodies.TopicStats,
    203: admin_bodies.ConsumerConnections,
    204: admin_bodies.ProducerConnections,
    206: route_bodies.TopicList,
    208: admin_bodies.ConsumeStats,
    222: admin_bodies.QueueOffsets,
    300: admin_bodies.GroupNames,
    307: admin_bodies.ConsumerRunningInfo,
    315: admin_bodies.StatsData,
    321: admin_bodies.ConsumeQueueAnswer,
    328: admin_bodies.AllProducers,
    907: admin_bodies.HaStatus,
}


def of(*kinds: str, codes: Iterable[int] | None = None) -> list[Frame]:
    wanted = None if codes is None else set(codes)
    return [f for f in FRAMES if f.kind in kinds and (wanted is None or f.request_code in wanted)]


def with_body(frames: list[Frame]) -> list[Frame]:
    return [frame for frame in frames if decode_command(frame.payload).body]


def test_the_file_is_whole() -> None:
    assert len(FRAMES) == 391
    java = {"java-5.3.3", "java-5.3.3-binary", "java-5.3.3-its", "java-4.9.8", "mqadmin", "broker-5.3.3"}
    assert {frame.peer for frame in FRAMES} == java | {"cpp", "go", "node"}


def test_a_stream_of_all_frames_is_split_into_them() -> None:
    stream = b"".join(frame.raw for frame in FRAMES)
    for step in (1 << 20, 4096, 7):
        buffer = FrameBuffer()
        payloads = [p for at in range(0, len(stream), step) for p in buffer.feed(stream[at : at + step])]
        assert payloads == [frame.payload for frame in FRAMES]
        assert buffer.pending_size_bytes == 0


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_a_frame_survives_decoding_and_encoding(frame: Frame) -> None:
    command = decode_command(frame.payload)
    assert (command.code, command.opaque) == (frame.code, frame.opaque)
    assert command.is_response == (frame.kind == "response")
    assert command.is_oneway == (frame.kind == "oneway")
    assert ("rocketmq" if command.serialize else "json") == frame.serialize
    assert decode_command(encode_command(command)[4:]) == command


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_a_frame_means_the_same_in_the_other_header_form(frame: Frame) -> None:
    command = decode_command(frame.payload)
    command.serialize = 1 - command.serialize
    command.ext = {name: value for name, value in command.ext.items() if value}  # the binary form has no empty values
    command.remark = command.remark or None
    again = decode_command(encode_command(command)[4:])
    if abs(command.code) > 32767:
        command.serialize = 0  # such codes exist in JSON only
    assert again == command


def test_every_captured_request_code_is_accounted_for() -> None:
    seen = {frame.request_code for frame in FRAMES}
    groups = (set(REQUEST_HEADERS), WITHOUT_HEADER, NOT_TYPED)
    assert seen <= set().union(*groups)
    assert not groups[0] & groups[1] | groups[0] & groups[2] | groups[1] & groups[2]


def _as_java(value: str, typed: str) -> str:
    """Return the value as Java writes it; the C++ client writes booleans as numbers."""
    return {"0": "false", "1": "true"}.get(value, value) if typed in ("true", "false") else value


def _check_fields(cls: type[Header], ext: dict[str, str]) -> None:
    header = decode_header(cls, ext)
    written = encode_header(header)
    known = {name: _as_java(value, written[name]) for name, value in ext.items() if name in written}
    assert {name: written[name] for name in known} == known
    assert decode_header(cls, written) == header


@pytest.mark.parametrize("frame", of("request", "oneway", codes=REQUEST_HEADERS), ids=str)
def test_a_requests_fields_fit_its_typed_header(frame: Frame) -> None:
    _check_fields(REQUEST_HEADERS[frame.request_code], decode_command(frame.payload).ext)


@pytest.mark.parametrize("frame", [f for f in of("response", codes=ANSWER_HEADERS) if f.code == 0], ids=str)
def test_an_answers_fields_fit_its_typed_header(frame: Frame) -> None:
    _check_fields(ANSWER_HEADERS[frame.request_code], decode_command(frame.payload).ext)


@pytest.mark.parametrize("frame", with_body(of("response", codes=MESSAGE_ANSWERS) + of("oneway", codes={39})), ids=str)
def test_stored_messages_are_rewritten_byte_for_byte(frame: Frame) -> None:
    body = decode_command(frame.payload).body
    messages = decode_records(body)
    assert messages
    rewritten = b"".join(map(encode_message, messages))
    assert rewritten == body
    assert all(message.properties for message in messages)
    assert all(message.content() for message in messages)


@pytest.mark.parametrize("frame", of("request", codes={320}), ids=str)
def test_batches_are_split_and_joined_again(frame: Frame) -> None:
    body = decode_command(frame.payload).body
    entries = decode_batch(body)
    assert len(entries) > 1
    assert b"".join(encode_batch_entry(content, properties, flag) for flag, content, properties in entries) == body


@pytest.mark.parametrize("frame", [f for f in FRAMES if decode_command(f.payload).body[:1] in (b"{", b"[")], ids=str)
def test_json_bodies_with_any_keys_are_read(frame: Frame) -> None:
    value = fastjson.loads(decode_command(frame.payload).body)
    assert fastjson.loads(encode_whole(value)) == value


def typed_bodies() -> list[Frame]:
    answers = [frame for frame in of("response", codes=ANSWER_BODIES) if frame.code == 0]
    return with_body(of("request", codes=REQUEST_BODIES) + answers)


@pytest.mark.parametrize("frame", typed_bodies(), ids=str)
def test_json_bodies_fit_their_typed_classes(frame: Frame) -> None:
    body = decode_command(frame.payload).body
    table = REQUEST_BODIES if frame.kind == "request" else ANSWER_BODIES
    cls = table[frame.request_code]
    if cls.__module__ == admin_bodies.__name__:
        value = admin_bodies.decode_admin_body(cls, body)
        assert admin_bodies.decode_admin_body(cls, admin_bodies.encode_admin_body(value)) == value
    else:
        value = client_bodies.decode_body(cls, body)
        assert client_bodies.decode_body(cls, client_bodies.encode_body(value)) == value


@pytest.mark.parametrize("frame", with_body(of("response", codes={105})), ids=str)
def test_routes_are_written_as_the_java_name_server_wrote_them(frame: Frame) -> None:
    body = decode_command(frame.payload).body
    written = route_bodies.encode_route(route_bodies.decode_route(body), quoted=b'{"0":' in body)
    # The members of a queue's entry may be in another order; every other byte is the same.
    assert written.partition(b'"queueDatas"')[0] == body.partition(b'"queueDatas"')[0]
    assert fastjson.loads(written) == fastjson.loads(body)


@pytest.mark.parametrize("frame", of("response", codes={106}), ids=str)
def test_cluster_info_is_written_as_the_java_name_server_wrote_it(frame: Frame) -> None:
    body = decode_command(frame.payload).body
    info = route_bodies.decode_cluster_info(body)
    assert route_bodies.encode_cluster_info(info.broker_addr_table, info.cluster_addr_table) == body


def test_the_captured_registration_is_understood() -> None:
    command = decode_command(of("request", codes={103})[0].payload)
    header = decode_header(route.RegisterBrokerHeader, command.ext)
    assert header.body_crc32 == registration_bodies.body_crc32(command.body)
    registered = registration_bodies.decode_registration(command.body, compressed=False, version=command.version)
    assert registered.topics["TBW102"].perm == 7
    assert registered.topics["TBW102"].read_queue_nums == 8
    assert registered.data_version.timestamp > 0

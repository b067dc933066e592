"""What is fuzzed: each decoder of bytes from a peer or a file, with the errors that its documentation names."""

from __future__ import annotations

import importlib
import io
import pkgutil
import ssl
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from http.client import HTTPConnection
from typing import Any, NamedTuple

import h11
import msgspec
from xxhash import xxh3_64_hexdigest

import pymq.wire as wire
import pymq.wire.headers as headers
from pymq.broker.fast.header import BinaryTemplates, decode_json_send, decode_signed_json_send
from pymq.broker.fast.pull_header import PullHeads
from pymq.broker.fast.signed_header import SignedBinaryTemplates
from pymq.broker.metadata.groups import read_groups
from pymq.broker.metadata.offset_table import read_offsets
from pymq.broker.metadata.topics import read_topics
from pymq.broker.raft import bodies as raft_bodies
from pymq.broker.raft import state_files as raft_states
from pymq.broker.raft.incoming import check_bytes
from pymq.broker.raft.members import parse_peers, peers_text
from pymq.clock import ManualClock
from pymq.config.load import parse_properties
from pymq.config.runtime import parse_changes
from pymq.errors import ConfigError, ExpressionError, ProtocolViolation, Refusal, UnreachableError, UsageError
from pymq.filter.sql92 import compile_sql
from pymq.model import fastjson, order_info, strict_json
from pymq.model.compression import InflateError, decompress_body
from pymq.model.hosts import parse_address
from pymq.model.ids import decode_offset_id
from pymq.model.pop import decode_ack, decode_check_point, decode_receipt
from pymq.model.properties import decode_properties
from pymq.model.record import MalformedRecordError, decode_batch, decode_record, decode_records
from pymq.model.timers import decode_handle
from pymq.model.trace import decode_traces
from pymq.model.transactions import decode_op_body
from pymq.net import tls
from pymq.net.address_server import named_by
from pymq.net.http import HEAD_SIZE_MAX_BYTES
from pymq.proxy.http2.frames import Http2Error
from pymq.proxy.protocol.messages import SendMessageRequest
from pymq.proxy.rpc.field_count import count_fields, shape_of
from pymq.proxy.rpc.wire import GrpcError, Inflation, MessageParser
from pymq.raft.messages import AppendRequest, Piece
from pymq.raft.state import Position, Replica
from pymq.security.acl_file import read_plain_acl, read_user_table
from pymq.security.addresses import parse_block, parse_pattern
from pymq.security.signature import Secret, is_signed_with
from pymq.store.disk.timer_checkpoint import read_timer_check
from pymq.store.log.log_record import parse_record
from pymq.wire import bodies_admin, bodies_client
from pymq.wire.bodies_pop import decode_batch_acks
from pymq.wire.bodies_registration import decode_registration
from pymq.wire.bodies_route import decode_cluster_info, decode_route
from pymq.wire.command import decode_command, encode_command
from pymq.wire.framing import FrameBuffer
from pymq.wire.ha import FrameReader, ReportReader
from pymq.wire.header import Header, decode_header
from tests.certificates import certificates
from tests.fuzz import seeds
from tests.proxy.http2.recording import RecordingOwner

HA_SEGMENT_BYTES = 1 << 20
PIECES = (1, 3, 7, 64)  # bytes in which a stream arrives


class Target(NamedTuple):
    """``run`` gives bytes to a decoder, which may raise ``documented`` and nothing else."""

    name: str
    run: Callable[[bytes], object]
    documented: tuple[type[Exception], ...]
    seeds: Callable[[], Sequence[bytes]]


def text(raw: bytes) -> str:
    """Return bytes as a text that a peer could have sent."""
    return raw.decode("utf-8", "replace")


def frames(raw: bytes) -> None:
    size = PIECES[raw[0] % len(PIECES)] if raw else 1
    whole = FrameBuffer(1 << 16)
    parts = FrameBuffer(1 << 16)
    expected = whole.feed(raw[1:])
    found = [payload for at in range(1, min(len(raw), 400), size) for payload in parts.feed(raw[at : at + size])]
    assert len(raw) >= 400 or found == expected, "frames depend on the pieces in which they arrive"


def command(raw: bytes) -> None:
    decoded = decode_command(raw)
    again = decode_command(encode_command(decoded)[4:])
    again.serialize = decoded.serialize  # a code that a binary header had cut goes on in JSON
    assert again == decoded, "a decoded frame changed on its way"


def header_of(kind: int) -> Callable[[bytes], None]:
    """Return a target of one kind of header; its length always fits."""

    def run(raw: bytes) -> None:
        decode_command(bytes([kind]) + len(raw).to_bytes(3, "big") + raw)

    return run


@cache
def classes_in(package: Any, base: type[Any]) -> list[type[Any]]:
    """Return the classes below ``base`` that a package's modules define, by name."""
    modules = [
        importlib.import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__)
    ]
    found = {
        cls
        for module in modules
        for cls in vars(module).values()
        if isinstance(cls, type) and issubclass(cls, base) and cls is not base and cls.__module__ == module.__name__
    }
    return sorted(found, key=lambda cls: f"{cls.__module__}.{cls.__name__}")


def typed_header(raw: bytes) -> None:
    kinds = classes_in(headers, Header)
    kind = kinds[raw[0] % len(kinds)] if raw else kinds[0]
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    decode_header(kind, dict(zip(names, text(raw[1:]).split("\x01"), strict=False)))


def body_kinds() -> list[type[Any]]:
    return [kind for kind in classes_in(wire, msgspec.Struct) if ".bodies_" in kind.__module__]


def typed_body(raw: bytes) -> None:
    """Every class of bodies, through the three readers of JSON."""
    kinds = cached_kinds()
    which = int.from_bytes(raw[:2], "big")
    kind = kinds[which % len(kinds)]
    (bodies_client.decode_body, bodies_admin.decode_admin_body, reversed_decode_json)[which // len(kinds) % 3](
        kind, raw[2:]
    )


def reversed_decode_json(kind: type[Any], raw: bytes) -> Any:
    return strict_json.decode_json(raw, kind)


cached_kinds = cache(body_kinds)


def compact_registration(raw: bytes) -> None:
    decode_registration(zlib.compress(raw, 0), compressed=True, version=479)


def tables(raw: bytes) -> None:
    """A broker's tables, as a slave copies them and a start reads them."""
    table = fastjson.loads(raw[1:])
    if not raw or not isinstance(table, dict):
        return
    which = raw[0] % 4
    if which < 3:
        (read_topics, read_groups, read_offsets)[which]({str(key): value for key, value in table.items()})
    else:
        order_info.from_saved(table)


def inflate(raw: bytes) -> None:
    decompress_body(raw[1:], 1 | (raw[0] % 8 if raw else 0) << 8, 1 << 16)


def message_record(raw: bytes) -> None:
    parse_record(memoryview(raw), 0, int.from_bytes(raw[28:36], "big", signed=True), check_crc=False)
    decode_record(raw, 0)


def ha_reports(raw: bytes) -> None:
    reader = ReportReader(32 if raw[:1] > b"\x7f" else 0)
    for at in range(1, min(len(raw), 400), 9):
        reader.feed(raw[at : at + 9])


def ha_frames(raw: bytes) -> None:
    reader = FrameReader(HA_SEGMENT_BYTES)
    size = PIECES[raw[0] % len(PIECES)] if raw else 1
    for at in range(1, min(len(raw), 400), size):
        reader.feed(raw[at : at + size])


def http_request(raw: bytes) -> None:
    """As the metrics endpoint reads it."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_SIZE_MAX_BYTES)
    for at in range(0, min(len(raw), 1 << 12), 1 << 10):
        connection.receive_data(raw[at : at + (1 << 10)])
        event = connection.next_event()
        if isinstance(event, h11.Request):
            event.target.partition(b"?")[0].decode("latin-1")
            return


class Answered:
    """A socket from which an HTTP client reads an answer."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._raw)

    def sendall(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        pass


def address_server(raw: bytes) -> None:
    def connect(url: str, place: str) -> HTTPConnection:
        connection = HTTPConnection(place)
        connection.sock = Answered(raw)
        return connection

    named_by("http://127.0.0.1:1/rocketmq/nsaddr", connect)


@cache
def server_context() -> ssl.SSLContext:
    files = certificates()
    identity = tls.Identity(str(files.server.cert_path), str(files.server.key_path))
    return tls.server_context(identity, ManualClock(files.made_at_ms), trust_path=files.ca_path).current()


def tls_records(raw: bytes) -> None:
    """As a server's port reads them, in pieces of any size."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    layer = server_context().wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(raw)
    layer.do_handshake()
    layer.read(1 << 14)


def fast_send(raw: bytes) -> None:
    if not raw or not raw.startswith((b"\x01\x36", b"\x01\x40") if raw[0] else (b'{"code":310,', b'{"code":320,'), 4):
        return
    body_at = 4 + int.from_bytes(raw[1:4], "big")
    if raw[0]:
        for templates in (BinaryTemplates(), SignedBinaryTemplates()):
            templates.decode(raw, body_at)
        return
    for decode in (decode_json_send, decode_signed_json_send):
        decode(raw[4:body_at])


def fast_pull(raw: bytes) -> None:
    if raw:
        PullHeads().decode(raw)


def texts(raw: bytes) -> None:
    """Short texts in fields: receipts, handles, ids, addresses, rules for addresses."""
    which = raw[0] if raw else 0
    readers = (decode_receipt, decode_handle, decode_offset_id, parse_address, parse_block, parse_pattern)
    readers[which % len(readers)](text(raw[1:]))


def pop_and_timer_records(raw: bytes) -> None:
    which = raw[0] if raw else 0
    (decode_check_point, decode_ack, read_timer_check, decode_op_body)[which % 4](raw[1:])


def properties(raw: bytes) -> None:
    decode_properties(raw)
    decode_traces(text(raw))


def signature(raw: bytes) -> None:
    values = text(raw).split("\x01")
    ext = dict(zip(values[::2], values[1::2], strict=False))
    assert not is_signed_with(SECRET, ext, b"", 479), "signed without the secret"


def raft_message(raw: bytes) -> None:
    message = raft_bodies.decode_message(raft_bodies.decode_envelope(raw))
    seal = raft_bodies.Seal("", "0" * 16, "1" * 16, 1, 0, 1, b"k" * 32)
    again = raft_bodies.encode_message(message, seal, cluster="c", group="g")
    decoded = raft_bodies.decode_message(raft_bodies.decode_envelope(again))
    assert decoded == message, "a message changed on its way"


def raft_state(raw: bytes) -> None:
    """The checksum is right, so that what stands behind it is reached."""
    state = raft_states.decode(b'{"checksum": "%s", "state": %s}' % (xxh3_64_hexdigest(raw).encode(), raw))
    assert raft_states.decode(raft_states.encode(state)) == state, "a state changed in its file"


def raft_peers(raw: bytes) -> None:
    members = parse_peers(text(raw))
    assert parse_peers(peers_text(members)) == members, "members changed in their text"


def raft_bytes(raw: bytes) -> None:
    """Bytes of a leader's log, in two pieces of which the first byte says where they meet."""
    data = raw[1:]
    middle = raw[0] % (len(data) + 1) if raw else 0
    pieces = [Piece(1, begin, end) for begin, end in ((0, middle), (middle, len(data))) if begin < end]
    request = AppendRequest(Replica("n0", "a"), Replica("n1", "b"), 1, Position(0, 0), tuple(pieces), (), 0)
    check_bytes(request, data)


def http2(raw: bytes) -> None:
    """A client's bytes behind its greeting, whole and in pieces of which the first byte gives the size."""
    size = PIECES[raw[0] % len(PIECES)] if raw else 1
    data = raw[1:1000]
    whole, parts = RecordingOwner(answers=True).greet(), RecordingOwner(answers=True).greet()
    try:
        expected = whole.give(data)
    except Http2Error as error:
        with suppress(Http2Error):
            for at in range(0, len(data), size):
                parts.give(data[at : at + size])
            raise AssertionError("what is wrong as a whole is right in pieces") from error
        raise
    written = b"".join([parts.give(data[at : at + size]) for at in range(0, len(data), size)])
    assert written == expected, "answers depend on the pieces in which a client's bytes arrive"
    assert whole.data == parts.data and whole.requests == parts.requests and whole.ended == parts.ended


def grpc_messages(raw: bytes) -> None:
    """A stream of gRPC's messages, each of which may be compressed."""
    size = PIECES[raw[0] % len(PIECES)] if raw else 1
    whole, parts = MessageParser(1 << 16, 1 << 16), MessageParser(1 << 16, 1 << 16)
    whole.feed(raw[1:1000])
    for at in range(1, len(raw[:1000]), size):
        parts.feed(raw[at : min(at + size, 1000)])
    assert whole.found == parts.found and whole.is_complete == parts.is_complete
    for is_compressed, message in whole.found:
        if is_compressed:
            Inflation(message, b"gzip", 1 << 16).inflate_all()


def grpc_fields(raw: bytes) -> None:
    """The fields of a request are counted whatever it is, up to the limit, and none is decoded."""
    count = count_fields(raw, SEND_SHAPE, 1_000)
    assert 0 <= count <= 1_000 + max(len(raw), 1)


SEND_SHAPE = shape_of(SendMessageRequest.DESCRIPTOR)
SECRET = Secret("a secret of the fuzzer")
WIRE = (ProtocolViolation,)
TARGETS = {
    target.name: target
    for target in (
        Target("frames", frames, WIRE, seeds.streams),
        Target("command", command, WIRE, seeds.payloads),
        Target("json-header", header_of(0), WIRE, lambda: seeds.headers(0)),
        Target("binary-header", header_of(1), WIRE, lambda: seeds.headers(1)),
        Target("typed-header", typed_header, (Refusal,), seeds.field_values),
        Target("fast-send", fast_send, (ValueError, RecursionError), seeds.payloads),
        Target("fast-pull", fast_pull, (ValueError, RecursionError), seeds.payloads),
        Target("bodies", typed_body, (Refusal, fastjson.JsonError), seeds.typed_bodies),
        Target("route", decode_route, (Refusal,), seeds.bodies),
        Target("cluster", decode_cluster_info, (Refusal,), seeds.bodies),
        Target(
            "registration",
            lambda raw: decode_registration(raw, compressed=False, version=479),
            (Refusal,),
            seeds.bodies,
        ),
        Target("compact-registration", compact_registration, (Refusal,), seeds.compact_registrations),
        Target("batch-acks", decode_batch_acks, (Refusal,), seeds.bodies),
        Target("fastjson", fastjson.loads, (fastjson.JsonError,), seeds.bodies),
        Target("tables", tables, (fastjson.JsonError, ValueError), seeds.tables),
        Target("inflate", inflate, (InflateError,), seeds.packed),
        Target("record", message_record, (MalformedRecordError,), seeds.records),
        Target("records", decode_records, (MalformedRecordError,), seeds.records),
        Target("batch", decode_batch, (MalformedRecordError,), seeds.batches),
        Target("properties", properties, (), seeds.properties),
        Target("pop-timer-records", pop_and_timer_records, (ValueError,), seeds.small_records),
        Target("texts", texts, (ValueError, UsageError), seeds.texts),
        Target("signature", signature, (), seeds.field_values),
        Target("ha-reports", ha_reports, WIRE, seeds.ha_streams),
        Target("ha-frames", ha_frames, WIRE, seeds.ha_streams),
        Target("raft-message", raft_message, (raft_bodies.BodyError,), seeds.raft_messages),
        Target("raft-state", raft_state, (ValueError,), seeds.raft_states),
        Target("raft-peers", raft_peers, (UsageError,), seeds.raft_peers),
        Target("raft-bytes", raft_bytes, WIRE, lambda: [b"\x00" + record for record in seeds.records()]),
        Target("http-request", http_request, (h11.RemoteProtocolError,), seeds.http_requests),
        Target("address-server", address_server, (UnreachableError,), seeds.http_answers),
        Target("http2", http2, (Http2Error,), seeds.http2_streams),
        Target("grpc-messages", grpc_messages, (GrpcError,), seeds.grpc_messages),
        Target("grpc-fields", grpc_fields, (ValueError,), seeds.grpc_fields),
        Target("tls", tls_records, (ssl.SSLError,), seeds.tls_records),
        Target("acl-file", read_plain_acl, (UsageError,), seeds.acl_files),
        Target("auth-json", read_user_table, (UsageError,), seeds.auth_files),
        Target(
            "settings", lambda raw: (parse_properties(text(raw)), parse_changes(raw)), (ConfigError,), seeds.settings
        ),
        Target("sql", lambda raw: compile_sql(text(raw)), (ExpressionError,), seeds.expressions),
    )
}

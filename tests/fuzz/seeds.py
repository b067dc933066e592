"""The corpus: bytes of real clients, brokers and files that the fuzzer begins with."""

from __future__ import annotations

import gzip
import json
import ssl
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes

from pymq.broker.raft.bodies import Seal, encode_message
from pymq.broker.raft.handshake import Hello, Welcome
from pymq.broker.raft.state_files import encode as encode_state
from pymq.model.compression import NAMES, compress_body
from pymq.model.record import MalformedRecordError, decode_batch, decode_records
from pymq.model.tables import DataVersion, TopicConfig
from pymq.model.timers import RecallHandle
from pymq.proxy.protocol.messages import SendMessageRequest
from pymq.proxy.rpc.wire import frame_message
from pymq.raft.messages import AppendRequest, Found, Piece, Snapshot, SnapshotOffer, VoteRequest
from pymq.raft.state import Epoch, Kind, Membership, MembershipEntry, Position, RaftState, Replica
from pymq.wire.bodies_registration import encode_registration
from pymq.wire.command import decode_command
from pymq.wire.ha import encode_head, encode_report
from tests.golden.frames import load_frames
from tests.golden.sql92.corpus import load_corpus
from tests.proxy.http2.recording import request_fields

ROOT = Path(__file__).parents[2]
# A producer's, of one message.
TRACE = "\x01".join(
    (
        "Pub",
        "1700000000000",
        "DefaultRegion",
        "g",
        "T",
        "id",
        "tag",
        "key",
        "127.0.0.1:1",
        "10",
        "5",
        "0",
        "off",
        "true\x02",
    )
)
COUNT = 60  # of one kind: more seeds cost time and reach no more code


def some(found: Sequence[bytes]) -> list[bytes]:
    """Return different seeds, evenly taken from all, short ones only."""
    short = [raw for raw in dict.fromkeys(found) if 0 < len(raw) <= 4096]
    return short[:: max(1, len(short) // COUNT)][:COUNT]


@cache
def payloads() -> list[bytes]:
    by_code = {(frame.code, frame.kind, frame.serialize): frame.payload for frame in load_frames()}
    return some(list(by_code.values()))


def streams() -> list[bytes]:
    raws = [frame.raw for frame in load_frames()]
    return some([bytes([at % 4]) + b"".join(raws[at : at + 2]) for at in range(0, len(raws), 7)])


def headers(kind: int) -> list[bytes]:
    found = [frame.payload for frame in load_frames() if frame.payload[0] == kind]
    return some([payload[4 : 4 + int.from_bytes(payload[1:4], "big")] for payload in found])


def bodies() -> list[bytes]:
    found = [body for frame in load_frames() if (body := decode_command(frame.payload).body)[:1] in (b"{", b"[")]
    return some([body for body in found if len(body) < 2048])


def typed_bodies() -> list[bytes]:
    return some([bytes([0, at]) + body for at in range(0, 256, 5) for body in bodies()[at % 5 :: 11]])


def field_values() -> list[bytes]:
    found = [decode_command(payload).ext for payload in payloads()]
    return some([bytes([at]) + "\x01".join(ext.values()).encode() for at, ext in enumerate(found)])


def compact_registrations() -> list[bytes]:
    topics = [TopicConfig(topic_name=name) for name in ("T", "%RETRY%g")]
    found = [(topics[:1], []), (topics, ["10.0.0.1:30000"]), ([], [])]
    return [zlib.decompress(encode_registration(a, DataVersion(), b, compressed=True)) for a, b in found]


def tables() -> list[bytes]:
    topic = {"topicName": "T", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0, "order": False}
    group = {"groupName": "g", "consumeEnable": True, "retryQueueNums": 1, "brokerId": 0}
    version = {"counter": 1, "timestamp": 1, "stateVersion": 0}
    found = [
        {"topicConfigTable": {"T": topic}, "dataVersion": version},
        {"subscriptionGroupTable": {"g": group}, "dataVersion": version},
        {"offsetTable": {"T@g": {"0": 5, "1": 7}}, "dataVersion": version},
        {"o": [1, 2], "popTime": 5, "i": 6, "l": 7, "cm": 1, "oc": {"1": 2}, "ot": {"1": 3}, "a": "x"},
    ]
    return [bytes([at]) + json.dumps(each).encode() for at, each in enumerate(found)]


def packed() -> list[bytes]:
    body = b"some text that repeats, some text that repeats"
    found = [compress_body(body, kind) for kind in NAMES]
    return [bytes([flags >> 8 & 7]) + raw for raw, flags in found]


def records() -> list[bytes]:
    found = []
    for frame in load_frames():
        if frame.kind == "response":
            body = decode_command(frame.payload).body
            try:
                if decode_records(body):
                    found.append(body)
            except MalformedRecordError:
                continue
    return some(found)


def batches() -> list[bytes]:
    found = []
    for frame in load_frames():
        if frame.code == 320 and frame.kind == "request":
            body = decode_command(frame.payload).body
            decode_batch(body)
            found.append(body)
    return some(found)


def properties() -> list[bytes]:
    found = [decode_command(payload).ext for payload in payloads()]
    return [
        *some([ext["i"].encode() for ext in found if "i" in ext]),
        b"KEYS\x01a b\x02TAGS\x01t\x02UNIQ_KEY\x01AC11000100002A9F\x02",
        TRACE.encode(),
    ]


def small_records() -> list[bytes]:
    check_point = {"bm": 0, "bn": "b", "c": "g", "d": [0, 1], "it": 60000, "n": 2, "pt": 5, "q": 0, "so": 3, "t": "T"}
    ack = {"ao": 3, "c": "g", "pt": 5, "q": 0, "so": 3, "t": "T", "aol": [3, 4]}
    return [
        b"\0" + json.dumps(check_point).encode(),
        b"\1" + json.dumps(ack).encode(),
        b"\2" + bytes(range(56)),
        b"\3" + b"12,13, 14,",
    ]


def texts() -> list[bytes]:
    return [
        b"\x00" + b"3 1700000000000 60000 0 0 broker-a 1 5",
        b"\x01" + RecallHandle("T", "broker-a", 1700000000000, "AC110001").encode().encode(),
        b"\x02" + b"AC11000100002A9F0000000000000ABC",
        b"\x03" + b"[::1]:9876",
        b"\x04" + b"10.0.0.0/8",
        b"\x05" + b"192.168.{1,2-5}",
        b"\x05" + b"192.168.1-4.*",
    ]


def ha_streams() -> list[bytes]:
    reports = b"".join(map(encode_report, (-77, 0, 512, 1024)))
    piece = b"0123456789"
    sent = encode_head(0, len(piece)) + piece + encode_head(len(piece), 0) + encode_head(len(piece), 3) + b"abc"
    return [bytes([at]) + stream for at in (0, 1, 2, 3, 128) for stream in (reports, sent)]


def raft_messages() -> list[bytes]:
    n0, n1 = Replica("n0", "00aa"), Replica("n1", "11bb")
    group = Membership(((n0, Kind.VOTER), (n1, Kind.LEARNER)))
    entries = (MembershipEntry(400, group),)
    found = (
        VoteRequest(n0, n1, 7, Position(5, 4096), is_transfer=True),
        AppendRequest(n0, n1, 7, Position(5, 100), (Piece(5, 100, 150), Piece(7, 150, 400)), entries, 90),
        SnapshotOffer(n0, n1, 7, Snapshot(0, Position(7, 400), (Epoch(5, 0), Epoch(7, 150)), entries)),
        Found(n0, n1, 1, n0, Position(0, 0), group),
        Hello(n0, n1, 0, "5" * 32),
        Welcome(n0, n1, 0, "5" * 32, 9),
    )
    return [
        encode_message(each, Seal(founding_id, "0" * 16, "1" * 16, 1, 0, 1, b"k" * 32), cluster="c", group="g")
        for each in found
        for founding_id in ("", "ab" * 16)
    ]


def raft_states() -> list[bytes]:
    """The part of the state file that its checksum covers."""
    n0, n1 = Replica("n0", "00aa"), Replica("n1", "11bb")
    entries = (MembershipEntry(0, Membership(((n0, Kind.VOTER), (n1, Kind.OBSERVER)))),)
    found = (RaftState(n0), RaftState(n0, 7, n1, (n1,), 400, (Epoch(1, 0), Epoch(7, 300)), entries))
    return [encode_state(state).partition(b'"state": ')[2].rstrip()[:-1] for state in found]


def raft_peers() -> list[bytes]:
    return [b"n0-10.0.0.1:40911;n1-10.0.0.2:40911;n2-10.0.0.3:40911", b"n0-[::1]:1; n10-rack-1.example:65535;"]


def http_requests() -> list[bytes]:
    return [
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer abc\r\n\r\n",
        b"POST /x?y HTTP/1.0\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
    ]


def http_answers() -> list[bytes]:
    return [
        b"HTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\n127.0.0.1:9876;127.0.0.1:9877",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ne\r\n127.0.0.1:9876\r\n0\r\n\r\n",
        b"HTTP/1.0 404 Not Found\r\n\r\nno",
    ]


def tls_records() -> list[bytes]:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    layer = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="broker-a")
    try:
        layer.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return [outgoing.read(), b"\x15\x03\x03\x00\x02\x02\x28", b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"]


def http2_streams() -> list[bytes]:
    """Return what clients say behind their greeting."""
    found = []
    for how in range(4):
        client = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        client.initiate_connection()
        client.data_to_send()
        for stream_id in (1, 3):
            fields = request_fields(content_type=b"application/grpc", x_mq_client_id=b"me", grpc_timeout=b"3S")
            client.send_headers(stream_id, fields, priority_weight=5 if how == 1 else None)
            client.send_data(stream_id, frame_message(b"request"), end_stream=how != 2, pad_length=3 if how else None)
        if how == 2:
            client.send_headers(1, [(b"x-last", b"1")], end_stream=True)
            client.reset_stream(3, ErrorCodes.CANCEL)
        if how == 3:
            client.update_settings({0x4: 9})
            client.increment_flow_control_window(1000)
            client.ping(b"12345678")
            client.close_connection()
        found.append(b"\x03" + client.data_to_send())
    return found


def grpc_fields() -> list[bytes]:
    """A request to send, and one that is nothing but empty messages."""
    request = SendMessageRequest()
    message = request.messages.add(body=b"body")
    message.topic.name = "T"
    message.user_properties["k"] = "v"
    message.system_properties.keys.extend(["a", "b"])
    return [request.SerializeToString(), b"\x0a\x00" * 50]


def grpc_messages() -> list[bytes]:
    packed = gzip.compress(b"a message" * 9, mtime=0)
    compressed = b"\x01" + len(packed).to_bytes(4, "big") + packed
    return [
        b"\x03" + frame_message(b"a") + frame_message(b""),
        b"\x02" + compressed,
        b"\x01" + frame_message(bytes(300)),
    ]


def acl_files() -> list[bytes]:
    return [
        (ROOT / "conf" / "acl" / "plain_acl.yml").read_bytes(),
        b"globalWhiteRemoteAddresses: [10.*]\naccounts:\n- accessKey: service1\n  secretKey: secret-1\n"
        b"  defaultTopicPerm: DENY\n  topicPerms: [a=PUB|SUB, b=DENY]\n  groupPerms: [g=SUB]\n",
        b"a: &x [1, *x]\nb: !!python/object:os.system\n? - q\n: |\n  t\n",
    ]


def auth_files() -> list[bytes]:
    user = {"username": "u", "password": "secret-1", "userType": "Super", "userStatus": "enable"}
    entry = {"resource": "Topic:t", "actions": ["Pub"], "sourceIps": ["10.0.0.0/8"], "decision": "Allow"}
    acl = {"subject": "User:u", "policies": [{"policyType": "Custom", "entries": [entry]}]}
    found = [{"users": {"u": user}, "acls": {"u": acl}}, {"users": {"u": {}}, "acls": {}}, {}]
    return [json.dumps(each).encode() for each in found]


def settings() -> list[bytes]:
    return [(ROOT / "conf" / "broker.conf").read_bytes()[:2000], b"a=b\nc = d\n", b"# x\na\\\n b:c\n"]


def expressions() -> list[bytes]:
    return some([expression.encode("utf-8", "replace") for expression in load_corpus().answers])

"""A raw remoting request in a few lines, independent of PyMQ's own codec.

The harness uses it to make topics and to wait until servers are ready, so that a fault in PyMQ's wire layer
can't hide itself by being on both ends.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple

UPDATE_AND_CREATE_TOPIC = 17
GET_MAX_OFFSET = 30
GET_ROUTE = 105
UPDATE_AND_CREATE_GROUP = 200
GET_CLUSTER_INFO = 106
SEND_REPLY_MESSAGE = 324
REQUEST_CODE_NOT_SUPPORTED = 3

POLL_INTERVAL_S = 0.05
CALL_TIMEOUT_S = 30
WAIT_TIMEOUT_S = 120


class Reply(NamedTuple):
    """A decoded answer; `ext` values are kept unchanged."""

    code: int
    remark: str
    ext: dict[str, Any]
    body: bytes


def call(address: str, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Reply:
    """Send one JSON-header request to `address` ("host:port") and return the answer.

    Raises OSError when the connection fails or is closed before the answer is complete.
    """
    host, port = address.rsplit(":", 1)
    header = {"code": code, "language": "JAVA", "version": 479, "opaque": 1, "flag": 0, "extFields": ext or {}}
    encoded = json.dumps(header).encode()
    with socket.create_connection((host, int(port)), timeout=CALL_TIMEOUT_S) as peer:
        peer.sendall(struct.pack(">II", 4 + len(encoded) + len(body), len(encoded)) + encoded + body)
        (length,) = struct.unpack(">I", _read_exactly(peer, 4))
        frame = _read_exactly(peer, length)
    header_length = struct.unpack(">I", frame[:4])[0] & 0xFFFFFF
    answer = json.loads(frame[4 : 4 + header_length])
    return Reply(answer["code"], answer.get("remark") or "", answer.get("extFields") or {}, frame[4 + header_length :])


def _read_exactly(peer: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = peer.recv(count - len(data))
        if not chunk:
            raise ConnectionError(f"closed after {len(data)} of {count} bytes")
        data += chunk
    return bytes(data)


def wait_until(what: str, condition: Callable[[], object], timeout_s: float = WAIT_TIMEOUT_S) -> None:
    """Poll `condition` until it is true; connection errors count as "not yet".

    Raise AssertionError naming `what` and the last error when the deadline passes.
    """
    deadline = time.monotonic() + timeout_s
    last: object = None
    while time.monotonic() < deadline:
        try:
            last = condition()
        except OSError as error:
            last = error
        else:
            if last:
                return
        time.sleep(POLL_INTERVAL_S)
    raise AssertionError(f"waited {timeout_s:.0f} s for {what}; last seen: {last!r}")


def create_topic(namesrv: str, broker: str, topic: str, queues: int = 4, perm: int = 6, attributes: str = "") -> None:
    """Create `topic` on `broker` and wait until `namesrv` returns its route. `attributes` is like "+name=value"."""
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": str(perm),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    if attributes:
        ext["attributes"] = attributes
    reply = call(broker, UPDATE_AND_CREATE_TOPIC, ext)
    assert reply.code == 0, f"creating {topic} at {broker}: code {reply.code} {reply.remark}"
    wait_until(f"the route of {topic}", lambda: call(namesrv, GET_ROUTE, {"topic": topic}).code == 0)


def create_group(broker: str, group: str, **settings: Any) -> None:
    """Create a consumer group on `broker`; `settings` are named like in Apache's JSON of it."""
    reply = call(broker, UPDATE_AND_CREATE_GROUP, body=json.dumps({"groupName": group, **settings}).encode())
    assert reply.code == 0, f"creating {group} at {broker}: code {reply.code} {reply.remark}"


def listens(address: str) -> bool:
    """Return True when a connection to `address` ("host:port") is accepted."""
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=CALL_TIMEOUT_S).close()
    except ConnectionRefusedError:
        return False
    return True


def route(namesrv: str, topic: str) -> dict[str, Any]:
    """Return the route of `topic` as strict JSON (the 5.x form, which needs no fastjson parser)."""
    reply = call(namesrv, GET_ROUTE, {"topic": topic, "acceptStandardJsonOnly": "true"})
    assert reply.code == 0, f"route of {topic}: code {reply.code} {reply.remark}"
    decoded: dict[str, Any] = json.loads(reply.body)
    return decoded


def max_offset(broker: str, topic: str, queue_id: int) -> int:
    """Return the next offset of one queue."""
    reply = call(broker, GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})
    assert reply.code == 0, f"max offset of {topic}/{queue_id}: code {reply.code} {reply.remark}"
    return int(reply.ext["offset"])


def wait_for_messages(broker: str, topic: str, count: int, queues: int = 4) -> None:
    """Wait until `count` messages of `topic` can be pulled: an Apache broker fills its queues after it answers."""
    wait_until(
        f"{count} messages of {topic}",
        lambda: sum(max_offset(broker, topic, queue) for queue in range(queues)) == count,
    )


class Record(NamedTuple):
    """One stored message: the fields that tests compare, and all its bytes."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    body: bytes  # as stored, so possibly compressed
    properties: dict[str, str]
    raw: bytes


def records(data: bytes) -> list[Record]:
    """Decode stored messages back to back, as the answer to a pull or a look-up holds them."""
    found = []
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        found.append(_record(data[at : at + size]))
        at += size
    return found


def _record(raw: bytes) -> Record:
    (queue_id,) = struct.unpack_from(">i", raw, 12)
    queue_offset, physical_offset, sys_flag = struct.unpack_from(">qqi", raw, 20)
    # The two hosts are 8 bytes each, or 20 when their IPv6 flag is set.
    born_host_bytes = 20 if sys_flag & 0x10 else 8
    store_host_bytes = 20 if sys_flag & 0x20 else 8
    (store_timestamp_ms,) = struct.unpack_from(">q", raw, 48 + born_host_bytes)
    at = 48 + born_host_bytes + 8 + store_host_bytes + 4 + 8
    (body_length,) = struct.unpack_from(">i", raw, at)
    body = raw[at + 4 : at + 4 + body_length]
    at += 4 + body_length
    topic_length = raw[at]
    topic = raw[at + 1 : at + 1 + topic_length].decode()
    at += 1 + topic_length
    text = raw[at + 2 :].decode()
    properties = dict(entry.split("\x01", 1) for entry in text.split("\x02") if entry)
    return Record(topic, queue_id, queue_offset, physical_offset, store_timestamp_ms, body, properties, raw)


def bodies(data: bytes) -> list[str]:
    """Return the bodies of stored messages back to back."""
    return [record.body.decode() for record in records(data)]

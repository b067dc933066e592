"""Consumption of lite topics: a real Apache RocketMQ 5.5.0 and PyMQ answer the same requests in the same way."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.interop.support import probe
from tests.interop.support.apache import Apache55Server
from tests.interop.support.pymq_server import PymqServer
from tests.interop.test_lite_topics_apache import LIGHT, await_end, make_parent, send

POP_LITE, SUBSCRIBE, ACK, HIDE = 200070, 200071, 200051, 200053
UNSUBSCRIBED, PARENT_INFO, LITE_INFO, CLIENT_INFO, GROUP_INFO, TRIGGER = 200073, 200075, 200076, 200077, 200078, 200079
QUERY_OFFSET = 14
NOTHING, ILLEGAL = 210, 29
INVISIBLE_MS = 3000
Server = Apache55Server | PymqServer


@pytest.fixture(scope="module", params=["apache", "pymq"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp(f"lite-pops-{request.param}")
    started: Server = Apache55Server(directory, LIGHT) if request.param == "apache" else PymqServer(directory, LIGHT)
    yield started
    started.stop()


class Link:
    """One connection, which keeps what the broker asks on its own."""

    def __init__(self, server: Server, client: str, group: str, topic: str) -> None:
        host, port = server.broker.rsplit(":", 1)
        self.client, self.group, self.topic = client, group, topic
        self.pushed: list[dict[str, Any]] = []
        self._socket = socket.create_connection((host, int(port)), timeout=probe.CALL_TIMEOUT_S)
        self._opaque = 0

    def close(self) -> None:
        self._socket.close()

    def call(self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"") -> probe.Reply:
        self._opaque += 1
        fields = {name: str(value) for name, value in (ext or {}).items()}
        header = {"code": code, "language": "JAVA", "version": 479, "opaque": self._opaque, "flag": 0}
        encoded = json.dumps({**header, "extFields": fields}).encode()
        self._socket.sendall(struct.pack(">II", 4 + len(encoded) + len(body), len(encoded)) + encoded + body)
        while True:
            answer, body = self._frame()
            if answer["flag"] & 1 and answer["opaque"] == self._opaque:
                return probe.Reply(answer["code"], answer.get("remark") or "", answer.get("extFields") or {}, body)
            self.pushed.append(answer)

    def _frame(self) -> tuple[dict[str, Any], bytes]:
        (length,) = struct.unpack(">I", self._read(4))
        frame = self._read(length)
        size = struct.unpack(">I", frame[:4])[0] & 0xFFFFFF
        return json.loads(frame[4 : 4 + size]), frame[4 + size :]

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self._socket.recv(count - len(data))
            assert chunk, "the connection was closed"
            data += chunk
        return bytes(data)

    def control(self, action: str, *lites: str, **more: Any) -> int:
        entry = {"action": action, "clientId": self.client, "group": self.group, "topic": self.topic}
        body = {"subscriptionSet": [{**entry, "liteTopicSet": lites, "version": 1, **more}]}
        return self.call(SUBSCRIBE, body=json.dumps(body).encode()).code

    def pop(self, poll_ms: int = 0, **more: Any) -> probe.Reply:
        fields = {
            "clientId": self.client, "consumerGroup": self.group, "topic": self.topic, "maxMsgNum": 16,
            "invisibleTime": INVISIBLE_MS, "pollTime": poll_ms, "bornTime": time.time_ns() // 1_000_000, **more,
        }  # fmt: skip
        return self.call(POP_LITE, fields)

    def await_bodies(self, *bodies: str) -> probe.Reply:
        """Pop until these messages come: an Apache broker dispatches news after its answers."""
        found = self.pop(poll_ms=15_000)
        assert found.code == 0, found.remark
        assert sorted(one.body.decode() for one in probe.records(found.body)) == sorted(bodies)
        return found

    def settle(self, code: int, found: probe.Reply, number: int, server: Server, **more: Any) -> int:
        properties = probe.records(found.body)[number].properties
        offset = properties["INNER_MULTI_QUEUE_OFFSET"]
        parts = (offset, found.ext["popTime"], found.ext["invisibleTime"], found.ext["reviveQid"])
        receipt = f"{' '.join(parts)} 0 {server.broker_name} 0 {offset}"
        fields = {
            "consumerGroup": self.group, "topic": self.topic, "queueId": 0, "extraInfo": receipt, "offset": offset,
            "liteTopic": properties["__LITE_TOPIC"], **more,
        }  # fmt: skip
        return self.call(code, fields).code

    def committed(self, lite: str) -> int:
        fields = {"consumerGroup": self.group, "topic": f"%LMQ%${self.topic}${lite}", "queueId": 0}
        return int(self.call(QUERY_OFFSET, {**fields, "setZeroIfNotFound": "false"}).ext.get("offset", -1))


def link(server: Server, topic: str, client: str = "c1", **attributes: str) -> Link:
    """Return a member of the topic's group, which is made with the first one."""
    group = f"{topic}-group"
    if client == "c1":
        make_parent(server, topic)
        wanted = {"+lite.bind.topic": topic, **{f"+{name}": value for name, value in attributes.items()}}
        probe.create_group(server.broker, group, attributes=wanted)
    return Link(server, f"{topic}-{client}", group, topic)  # RocketMQ knows a client id once


def test_messages_come_in_order_and_again_and_are_acknowledged(server: Server) -> None:
    with closing(link(server, "PopOne")) as one:
        for lite, body in (("a", "a0"), ("a", "a1"), ("b", "b0"), ("x", "x0")):
            send(server, lite, body, one.topic)
        await_end(server, "x", 1, one.topic)
        assert one.control("PARTIAL_ADD", "a", "b", "c") == 0
        found = one.await_bodies("a0", "a1", "b0")
        records = probe.records(found.body)
        assert found.ext["reviveQid"] == "999" and found.ext["invisibleTime"] == str(INVISIBLE_MS)
        assert found.ext["orderCountInfo"] == "0;0;0"
        assert [record.topic for record in records] == [one.topic] * 3
        assert one.pop().code == NOTHING
        numbers = {record.body.decode(): number for number, record in enumerate(records)}
        assert one.settle(ACK, found, numbers["b0"], server) == 0
        assert one.settle(HIDE, found, numbers["a1"], server, invisibleTime=INVISIBLE_MS) == 0
        again = one.await_bodies("a0", "a1")
        assert again.ext["orderCountInfo"] == "0 qo0%0 1;0 qo0%1 1"
        for number in range(2):
            assert one.settle(ACK, again, number, server) == 0
        assert (one.committed("a"), one.committed("b"), one.committed("x")) == (2, 1, -1)
        send(server, "c", "c0", one.topic)
        one.await_bodies("c0")


def test_an_exclusive_client_takes_a_lite_topic_away(server: Server) -> None:
    attributes = {"lite.sub.model": "Exclusive", "lite.sub.reset.offset.exclusive": "true"}
    with closing(link(server, "PopExclusive", **attributes)) as one, closing(link(server, one.topic, "c2")) as two:
        send(server, "a", "a0", one.topic)
        await_end(server, "a", 1, one.topic)
        assert one.control("PARTIAL_ADD", "a", "b") == 0
        assert one.settle(ACK, one.await_bodies("a0"), 0, server) == 0
        assert two.control("PARTIAL_ADD", "a") == 0
        two.await_bodies("a0")
        assert one.pop().code == NOTHING
        (notice,) = one.pushed
        assert (notice["code"], notice["flag"] & 2) == (UNSUBSCRIBED, 2)
        assert notice["extFields"] == {"liteTopic": "a", "consumerGroup": one.group, "clientId": one.client}


def test_a_wildcard_client_gets_all_lite_topics(server: Server) -> None:
    with closing(link(server, "PopWild", **{"lite.sub.wildcard": "true"})) as one:
        assert one.control("PARTIAL_ADD", "a") == 604
        assert one.control("COMPLETE_ADD") == 0
        send(server, "new", "n0", one.topic)
        assert one.settle(ACK, one.await_bodies("n0"), 0, server) == 0
        send(server, "other", "o0", one.topic)
        one.await_bodies("o0")


@pytest.mark.parametrize(
    ("option", "bodies"),
    [
        ({"type": "POLICY", "value": 1}, ("a0", "a1", "a2")),
        ({"type": "OFFSET", "value": 1}, ("a1", "a2")),
        ({"type": "TAIL_N", "value": 1}, ("a1", "a2")),
    ],
)
def test_an_offset_option_moves_the_group(server: Server, option: dict[str, Any], bodies: tuple[str, ...]) -> None:
    with closing(link(server, f"PopFrom{option['type']}")) as one:
        for body in ("a0", "a1"):
            send(server, "a", body, one.topic)
        await_end(server, "a", 2, one.topic)
        assert one.control("PARTIAL_ADD", "a") == 0
        found = one.await_bodies("a0", "a1")
        for number in range(2):
            assert one.settle(ACK, found, number, server) == 0
        assert one.control("PARTIAL_REMOVE", "a") == 0
        assert one.committed("a") == 2
        send(server, "a", "a2", one.topic)
        await_end(server, "a", 3, one.topic)
        assert one.control("PARTIAL_ADD", "a", offsetOption=option) == 0
        one.await_bodies(*bodies)


def test_look_ups_and_refusals(server: Server) -> None:
    with closing(link(server, "PopLook")) as one:
        assert one.control("PARTIAL_ADD", "a", "b") == 0
        for body in ("a0", "a1"):
            send(server, "a", body, one.topic)
        await_end(server, "a", 2, one.topic)
        parent = json.loads(one.call(PARENT_INFO, {"topic": one.topic}).body)
        assert parent["groups"] == [one.group]
        lite = json.loads(one.call(LITE_INFO, {"parentTopic": one.topic, "liteTopic": "a"}).body)
        assert [each["clientId"] for each in lite["subscriber"]] == [one.client]
        of_client = {"parentTopic": one.topic, "group": one.group, "clientId": one.client, "maxCount": 10}
        found = json.loads(one.call(CLIENT_INFO, of_client).body)
        assert found["liteTopicCount"] == len(found["liteTopicSet"])
        assert f"%LMQ%${one.topic}$a" in found["liteTopicSet"]
        unknown = json.loads(one.call(CLIENT_INFO, {**of_client, "clientId": "none"}).body)
        assert (unknown["liteTopicCount"], unknown["lastAccessTime"]) == (-1, -1)
        assert one.settle(ACK, one.await_bodies("a0", "a1"), 0, server) == 0
        lag = json.loads(one.call(GROUP_INFO, {"group": one.group, "liteTopic": "a", "topK": 5}).body)
        assert lag["totalLagCount"] == 1 and lag["parentTopic"] == one.topic
        assert one.call(TRIGGER, {"group": one.group, "clientId": one.client}).code == 0
        probe.create_topic(server.namesrv, server.broker, "PopPlain", 4)
        assert one.pop(topic="PopPlain").code == ILLEGAL
        assert one.pop(topic="Nowhere").code == 17
        assert one.pop(maxMsgNum=33).code == ILLEGAL
        assert one.pop(consumerGroup="unbound").code == ILLEGAL
        assert one.call(SUBSCRIBE).code == 604
        assert one.control("ADD", "a") == 1
        assert one.call(200072, {}).code == 3

"""Lite topics: a real Apache RocketMQ 5.5.0 and PyMQ store the same, answer the same, and take turns on a directory."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.support import probe
from tests.interop.support.apache import SEGMENT_SIZE_BYTES, Apache55Server
from tests.interop.support.pymq_server import PymqServer

SEND_MESSAGE_V2, PULL_MESSAGE = 310, 11
BROKER_INFO, PARENT_INFO, LITE_INFO = 200074, 200075, 200076
LIGHT = {"enableLmq": "true", "enableMultiDispatch": "true"}
PARENT = "LiteParent"
Server = Apache55Server | PymqServer


@pytest.fixture(scope="module", params=["apache", "pymq"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp(f"lites-{request.param}")
    started: Server = Apache55Server(directory, LIGHT) if request.param == "apache" else PymqServer(directory, LIGHT)
    yield started
    started.stop()


def make_parent(server: Server, topic: str = PARENT) -> None:
    attributes = "+message.type=LITE,+lite.topic.expiration=1440"
    probe.create_topic(server.namesrv, server.broker, topic, 4, attributes=attributes)


def send(server: Server, lite: str, body: str, topic: str = PARENT) -> None:
    text = f"UNIQ_KEY\x01{body.encode().hex().upper()}\x02__LITE_TOPIC\x01{lite}\x02"
    now_ms = str(time.time_ns() // 1_000_000)
    header = {
        "a": "PG", "b": topic, "c": "TBW102", "d": "4", "e": "2", "f": "0", "g": now_ms, "h": "0", "i": text, "j": "0",
        "k": "false", "m": "false",
    }  # fmt: skip
    reply = probe.call(server.broker, SEND_MESSAGE_V2, header, body.encode())
    assert reply.code == 0, reply.remark


def light_end(server: Server, lite: str, topic: str = PARENT) -> int:
    return probe.max_offset(server.broker, f"%LMQ%${topic}${lite}", 0)


def await_end(server: Server, lite: str, end: int, topic: str = PARENT) -> None:
    probe.wait_until(f"{end} messages of {lite}", lambda: light_end(server, lite, topic) == end)


def test_both_store_the_same_places_and_answer_the_same(server: Server) -> None:
    make_parent(server)
    for lite, body in (("a", "a0"), ("b", "b0"), ("a", "a1"), ("c$1", "c0")):
        send(server, lite, body)
    await_end(server, "a", 2)
    await_end(server, "c$1", 1)
    header = {
        "consumerGroup": "LiteReaders", "topic": PARENT, "queueId": "2", "queueOffset": "0", "sysFlag": "4",
        "maxMsgNums": "32", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*",
    }  # fmt: skip
    found = probe.records(probe.call(server.broker, PULL_MESSAGE, header).body)
    places = [(one.properties["INNER_MULTI_DISPATCH"], one.properties["INNER_MULTI_QUEUE_OFFSET"]) for one in found]
    assert places == [
        (f"%LMQ%${PARENT}$a", "0"), (f"%LMQ%${PARENT}$b", "0"), (f"%LMQ%${PARENT}$a", "1"), (f"%LMQ%${PARENT}$c$1", "0")
    ]  # fmt: skip
    parent = json.loads(probe.call(server.broker, PARENT_INFO, {"topic": PARENT}).body)
    assert (parent["topic"], parent["ttl"], parent.get("groups")) == (PARENT, 1440, None)
    lite = json.loads(probe.call(server.broker, LITE_INFO, {"parentTopic": PARENT, "liteTopic": "a"}).body)
    assert (lite["parentTopic"], lite["liteTopic"], lite["shardingToBroker"]) == (PARENT, "a", True)
    assert (lite["topicOffset"]["minOffset"], lite["topicOffset"]["maxOffset"]) == (0, 2)
    whole = json.loads(probe.call(server.broker, BROKER_INFO).body)
    assert whole["topicMeta"] == {PARENT: 1440} and whole["storeType"] == "default"
    assert probe.call(server.broker, PARENT_INFO, {"topic": "None"}).code == 17
    probe.create_topic(server.namesrv, server.broker, "LiteNone", 4)
    for code, ext in ((PARENT_INFO, {"topic": "LiteNone"}), (LITE_INFO, {"parentTopic": "LiteNone", "liteTopic": "a"})):
        assert probe.call(server.broker, code, ext).code == 29


def test_a_directory_moves_from_pymq_to_apache_and_back(tmp_path: Path) -> None:
    settings = {"mappedFileSizeCommitLog": str(SEGMENT_SIZE_BYTES)}
    first = PymqServer(tmp_path / "first", settings)
    try:
        make_parent(first)
        for number in range(3):
            send(first, "a", f"p{number}")
        send(first, "b", "p3")
        await_end(first, "a", 3)
    finally:
        first.stop()
    shutil.rmtree(first.store / "consumequeue")  # RocketMQ makes all queues again, light ones among them
    middle = Apache55Server(tmp_path / "middle", LIGHT, store=first.store)
    try:
        await_end(middle, "a", 3)
        send(middle, "a", "j0")
        send(middle, "new", "j1")
        await_end(middle, "a", 4)
        middle.close_store()
    finally:
        middle.stop()
    last = PymqServer(tmp_path / "last", settings, store=first.store)
    try:
        assert [light_end(last, lite) for lite in ("a", "b", "new")] == [4, 1, 1]
        send(last, "a", "p4")
        await_end(last, "a", 5)
    finally:
        last.stop()

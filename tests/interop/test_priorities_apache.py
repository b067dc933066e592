"""Priorities: a real Apache RocketMQ 5.5.0 and PyMQ give the same answers to the same requests."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.interop.support import probe
from tests.interop.support.apache import Apache55Server
from tests.interop.support.pymq_server import PymqServer

SEND_MESSAGE_V2, POP_MESSAGE = 310, 200050
PRIORITY = "_SYS_MSG_PRIORITY_"
SETTINGS = {"useSeparateRetryQueue": "true"}
Server = Apache55Server | PymqServer


@pytest.fixture(scope="module", params=["apache", "pymq"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp(f"priorities-{request.param}")
    started: Server = (
        Apache55Server(directory, SETTINGS) if request.param == "apache" else PymqServer(directory, SETTINGS)
    )
    yield started
    started.stop()


def send(server: Server, topic: str, body: str, **properties: str) -> int:
    """Return the queue that the answer names."""
    pairs = {"UNIQ_KEY": body.encode().hex().upper(), **properties}
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())
    now_ms = str(time.time_ns() // 1_000_000)
    header = {
        "a": "PG", "b": topic, "c": "TBW102", "d": "4", "e": "2", "f": "0", "g": now_ms, "h": "0", "i": text, "j": "0",
        "k": "false", "m": "false",
    }  # fmt: skip
    reply = probe.call(server.broker, SEND_MESSAGE_V2, header, body.encode())
    assert reply.code == 0, reply.remark
    return int(reply.ext["queueId"])


def pop(server: Server, topic: str, group: str, invisible_ms: int) -> probe.Record | None:
    """Return one message."""
    header = {
        "consumerGroup": group, "topic": topic, "queueId": "-1", "maxMsgNums": "1", "invisibleTime": str(invisible_ms),
        "pollTime": "0", "bornTime": str(time.time_ns() // 1_000_000), "initMode": "0", "order": "false",
        "expType": "TAG", "exp": "*",
    }  # fmt: skip
    found = probe.records(probe.call(server.broker, POP_MESSAGE, header).body)
    return found[0] if found else None


def popped(server: Server, topic: str, group: str, count: int, invisible_ms: int = 600_000) -> list[str]:
    """Pop until so many messages came."""
    bodies: list[str] = []

    def next_one() -> bool:
        if (record := pop(server, topic, group, invisible_ms)) is not None:
            bodies.append(record.body.decode())
        return len(bodies) == count

    probe.wait_until(f"{count} messages of {topic}", next_one)
    return bodies


def test_a_priority_is_the_queue_and_the_order_of_pops(server: Server) -> None:
    topic = "PrioritySent"
    probe.create_topic(server.namesrv, server.broker, topic, 8, attributes="+message.type=PRIORITY")
    probe.create_group(server.broker, "PriorityGroup")
    sent = {value: send(server, topic, f"p{value}", **{PRIORITY: value}) for value in ("0", "3", "7", "9", "-1", "abc")}
    assert sent == {"0": 0, "3": 3, "7": 7, "9": 7, "-1": 2, "abc": 2}
    assert send(server, topic, "keyed", **{PRIORITY: "6", "__SHARDINGKEY": "k"}) == 2
    probe.wait_for_messages(server.broker, topic, 7, 8)
    assert popped(server, topic, "PriorityGroup", 7) == ["p7", "p9", "p3", "p-1", "pabc", "keyed", "p0"]


def test_a_topic_of_another_type_has_the_same_queues(server: Server) -> None:
    probe.create_topic(server.namesrv, server.broker, "PriorityNormal", 4, attributes="+message.type=NORMAL")
    assert send(server, "PriorityNormal", "m", **{PRIORITY: "3"}) == 3


def test_retries_keep_their_priorities(server: Server) -> None:
    topic = "PriorityAgain"
    probe.create_topic(server.namesrv, server.broker, topic, 8, attributes="+message.type=PRIORITY")
    probe.create_group(server.broker, "PriorityRetries")
    for priority in ("1", "6", "4"):
        assert send(server, topic, priority, **{PRIORITY: priority}) == int(priority)
    probe.wait_for_messages(server.broker, topic, 3, 8)
    assert popped(server, topic, "PriorityRetries", 3, invisible_ms=3000) == ["6", "4", "1"]
    retry_topics = [f"%RETRY%PriorityRetries{separator}{topic}" for separator in "_+"]

    def all_wait_again() -> bool:
        ends = [probe.call(server.broker, probe.GET_MAX_OFFSET, {"topic": name, "queueId": str(queue_id)})
                for name in retry_topics for queue_id in range(8)]  # fmt: skip
        return sum(int(reply.ext["offset"]) for reply in ends if reply.code == 0) == 3

    probe.wait_until("three messages in the retry topic", all_wait_again)
    assert popped(server, topic, "PriorityRetries", 3) == ["6", "4", "1"]


@pytest.mark.parametrize("value", ["101", "x"])
def test_a_bad_factor_is_refused(server: Server, value: str) -> None:
    body = b'{"groupName": "PriorityBad", "attributes": {"+priority.factor": "%s"}}' % value.encode()
    reply = probe.call(server.broker, probe.UPDATE_AND_CREATE_GROUP, body=body)
    assert reply.code != 0

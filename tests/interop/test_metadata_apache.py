"""Topics, groups, offsets and delay levels of a real Apache master on a PyMQ slave.

``test_replication_apache.py`` checks the opposite direction: a RocketMQ slave asks for them once a minute.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from pymq.model import fastjson
from pymq.store.disk.timer_checkpoint import read_timer_check
from tests.interop.support import probe
from tests.interop.support.replicas import ApacheMember, Member, NameServer, PymqMember, assert_same_log

GET_ALL_TOPICS = 21
UPDATE_CONSUMER_OFFSET = 15
QUERY_CONSUMER_OFFSET = 14
UPDATE_GROUP = 200
DELETE_TOPIC = 215
SEND = 310
TOPIC, GROUP = "Copied", "copied-group"
COPIED_TIMEOUT_S = 180  # a RocketMQ slave asks when a minute has passed


def table(broker: Member, name: str) -> dict[str, Any]:
    """Return a file of its ``config``; empty while it is missing or half written (RocketMQ writes in place)."""
    path = broker.store / "config" / name
    try:
        loaded: dict[str, Any] = fastjson.loads(path.read_bytes())
    except (FileNotFoundError, fastjson.JsonError):
        return {}
    return loaded


def timer_progress(broker: Member) -> tuple[int, int]:
    """Return the time (ms) up to which its master has delivered timer messages, and the number it has accepted."""
    try:
        fields = read_timer_check((broker.store / "config" / "timercheck").read_bytes())
    except FileNotFoundError:
        return -1, -1
    return fields["lastReadTimeMs"], fields["masterTimerQueueOffset"]


def wait_for(what: str, slave: Member, condition: Any) -> None:
    try:
        probe.wait_until(what, condition, timeout_s=COPIED_TIMEOUT_S)
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{slave.log_tail()}") from None


def send(master: Member, count: int, queue_id: int = 0, properties: str = "") -> None:
    ext = {"a": "producer", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0", "g": "1", "h": "0"}
    for _ in range(count):
        reply = probe.call(master.broker, SEND, {**ext, "i": properties}, b"m")
        assert reply.code == 0, reply


def commit(broker: Member, offset: int, group: str = GROUP) -> None:
    ext = {"consumerGroup": group, "topic": TOPIC, "queueId": "0", "commitOffset": str(offset)}
    reply = probe.call(broker.broker, UPDATE_CONSUMER_OFFSET, ext)
    assert reply.code == 0, reply


def committed(broker: Member, group: str = GROUP) -> int:
    ext = {"consumerGroup": group, "topic": TOPIC, "queueId": "0", "setZeroIfNotFound": "false"}
    reply = probe.call(broker.broker, QUERY_CONSUMER_OFFSET, ext)
    return int(reply.ext["offset"]) if reply.code == 0 else -1


def fill(namesrv: NameServer, master: Member) -> None:
    """Make a topic with messages, some delayed, and a group with 3 retries and the committed offset 2."""
    probe.create_topic(namesrv.address, master.broker, TOPIC)
    group = {"groupName": GROUP, "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 3}
    assert probe.call(master.broker, UPDATE_GROUP, body=json.dumps(group).encode()).code == 0
    send(master, 5)
    send(master, 2, queue_id=1, properties="DELAY\x011\x02")
    probe.wait_until("delayed messages", lambda: probe.max_offset(master.broker, TOPIC, 1) == 2)
    commit(master, 2)


def group_in(groups: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = groups.get("subscriptionGroupTable", {}).get(GROUP, {})
    return found


def topics_version(master: Member) -> object:
    return fastjson.loads(probe.call(master.broker, GET_ALL_TOPICS).body)["dataVersion"]


def check_copied(slave: Member) -> None:
    """Check that the slave's files hold what :func:`fill` made."""
    wait_for("the topic", slave, lambda: TOPIC in table(slave, "topics.json").get("topicConfigTable", {}))
    wait_for("the group", slave, lambda: group_in(table(slave, "subscriptionGroup.json")).get("retryMaxTimes") == 3)
    offsets = f"{TOPIC}@{GROUP}"
    wait_for(
        "the offset",
        slave,
        lambda: table(slave, "consumerOffset.json").get("offsetTable", {}).get(offsets, {}).get("0") == 2,
    )
    wait_for("the delay level", slave, lambda: table(slave, "delayOffset.json").get("offsetTable", {}).get("1") == 2)


def test_a_pymq_slave_copies_from_apache(tmp_path: Path, namesrv: NameServer, members: list[Member]) -> None:
    master = ApacheMember(tmp_path / "master", namesrv, 0, None)
    slave = PymqMember(tmp_path / "slave", namesrv, 1, None)
    members += [slave, master]
    master.start()
    fill(namesrv, master)
    slave.start()
    assert_same_log(master, slave)
    check_copied(slave)
    wait_for("the version", slave, lambda: table(slave, "topics.json")["dataVersion"] == topics_version(master))
    wait_for("request modes", slave, lambda: "messageRequestModeMap" in table(slave, "messageRequestMode.json"))
    wait_for("timer metrics", slave, lambda: "timingCount" in table(slave, "timermetrics"))
    sent_ms = int(time.time() * 1000)
    send(master, 1, queue_id=2, properties="TIMER_DELAY_SEC\x012\x02")
    wait_for("the timer's progress", slave, lambda: timer_progress(slave) >= (sent_ms + 1000, 1))

    # The master gets a commit made during its absence when it returns.
    master.kill()
    probe.wait_until("the slave to be alone", lambda: list(namesrv.members()) == ["1"])
    commit(slave, 4)
    commit(slave, 3, "NEWCOMERS")
    assert committed(slave) == 4
    master.start()
    wait_for("the offset at the master", slave, lambda: committed(master) == 4)
    # The master takes no offsets of an unknown group; they arrive as soon as it knows the group.
    pending = lambda: table(slave, "pendingOffsets.json").get("pendingOffsets")  # noqa: E731
    wait_for("only the new group's pending", slave, lambda: pending() == {f"{TOPIC}@NEWCOMERS": {"0": 3}})
    assert committed(master, "NEWCOMERS") == -1
    group = {"groupName": "NEWCOMERS", "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 3}
    assert probe.call(master.broker, UPDATE_GROUP, body=json.dumps(group).encode()).code == 0
    wait_for("the new group's offset at the master", slave, lambda: committed(master, "NEWCOMERS") == 3)
    commit(slave, 3)
    wait_for("nothing pending", slave, lambda: table(slave, "pendingOffsets.json").get("pendingOffsets") == {})
    assert committed(master) == committed(slave) == 4

    # The queues of a deleted topic go; after its creation they restart at 0.
    assert (slave.store / "consumequeue" / TOPIC / "0").is_dir()
    assert probe.call(master.broker, DELETE_TOPIC, {"topic": TOPIC}).code == 0
    wait_for("the deletion", slave, lambda: TOPIC not in table(slave, "topics.json")["topicConfigTable"])
    wait_for("its queues", slave, lambda: not (slave.store / "consumequeue" / TOPIC).exists())
    probe.create_topic(namesrv.address, master.broker, TOPIC)
    send(master, 3)
    assert_same_log(master, slave)
    wait_for("the new queue", slave, lambda: probe.max_offset(slave.broker, TOPIC, 0) == 3)

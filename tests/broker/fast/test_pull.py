"""The fast path for pulls equals the plain path, and declines pulls that don't simply find messages."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from pymq.broker.wiring import broker_dispatcher
from pymq.model.tables import TopicConfig
from pymq.wire.command import SERIALIZE_ROCKETMQ, Command, decode_command, encode_command
from tests.broker.disk import failing
from tests.broker.world import ROOT, FakePeer, World

TAGS = "TagA || TagC"


def opened() -> World:
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
    for number in range(20):
        world.put("T", b"body %d" % number, TAGS=f"Tag{'ABC'[number % 3]}")
    return world


def pull(**changes: Any) -> Command:
    ext = {
        "consumerGroup": "G",
        "topic": "T",
        "queueId": "0",
        "queueOffset": "3",
        "maxMsgNums": "32",
        "sysFlag": "6",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subVersion": "0",
        "subscription": "*",
        "expressionType": "TAG",
        "bname": "broker-a",
    }
    flag = changes.pop("flag", 0)
    serialize = changes.pop("serialize", 0)
    ext.update(changes)
    return Command(11, opaque=77, flag=flag, ext=ext, serialize=serialize)


def plain_answer(world: World, command: Command) -> Command | None:
    reply = broker_dispatcher(world.parts).dispatch(FakePeer(), command)
    return None if reply is None else decode_command(encode_command(reply.to_command(command))[4:])


def fast_answer(world: World, command: Command) -> Command | None:
    peer = FakePeer()
    took = world.parts.requests.fast_pulls(peer, encode_command(command)[4:])  # type: ignore[arg-type]
    assert took == bool(peer.frames)
    return peer.frames[0] if took else None


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"queueOffset": "0", "maxMsgNums": "1"},
        {"subscription": TAGS},
        {"subscription": ""},
        {"maxMsgBytes": "300"},
        {"maxMsgBytes": "1"},
        {"sysFlag": "7", "commitOffset": "5"},
        {"expressionType": ""},
    ],
)
def test_found_messages_get_the_same_answer_on_both_paths(changes: dict[str, Any]) -> None:
    fast, plain = opened(), opened()
    answer = fast_answer(fast, pull(**changes))
    assert answer is not None and answer.body
    assert answer == plain_answer(plain, pull(**changes))
    assert fast.parts.metadata.cursors.query("G", "T", 0) == plain.parts.metadata.cursors.query("G", "T", 0)
    assert fast.parts.stats.totals() == plain.parts.stats.totals()


@pytest.mark.parametrize(
    "changes",
    [
        {"queueOffset": "20"},
        {"queueOffset": "21"},
        {"queueOffset": "-1"},
        {"queueId": "1"},
        {"queueId": "2"},
        {"topic": "unknown"},
        {"sysFlag": "2"},
        {"expressionType": "SQL92"},
        {"subscription": "TagZ"},
        {"queueOffset": "soon"},
        {"flag": 2},
        {"serialize": SERIALIZE_ROCKETMQ},
    ],
)
def test_everything_else_is_declined(changes: dict[str, Any]) -> None:
    assert fast_answer(opened(), pull(**changes)) is None


def test_a_pending_reset_is_left_to_the_plain_path() -> None:
    world = opened()
    world.parts.metadata.cursors.reset("G", "T", 0, 1)
    assert fast_answer(world, pull()) is None
    answer = plain_answer(world, pull())
    assert answer is not None and answer.code == 21 and answer.ext["nextBeginOffset"] == "1"
    assert fast_answer(world, pull()) is not None


def test_a_group_that_cannot_be_saved_still_reads() -> None:
    world = opened()
    with failing(world, "open", "/config/"):
        assert fast_answer(world, pull()) is not None
        answer = plain_answer(world, pull())
        assert answer is not None and answer.code == 0
    world.parts.metadata.groups.tick()
    assert b'"G"' in world.files.read_bytes(f"{ROOT}/config/subscriptionGroup.json")


def test_an_unreadable_disk_is_left_to_the_plain_path() -> None:
    world = opened()
    world.parts.metadata.groups.ensure("G")
    world.parts.store._queues.write_tails()
    with failing(world, "pread", "/consumequeue/", errno.EIO):
        assert fast_answer(world, pull()) is None
        answer = plain_answer(world, pull())
        assert answer is not None and answer.code == 1 and "Input/output error" in (answer.remark or "")

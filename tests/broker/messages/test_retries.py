"""Retries: delays that grow, the last try, dead letters, and clients' own sends to retry topics."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.errors import Refusal
from pymq.model.draft import Draft
from pymq.model.message import MessageQueue
from pymq.model.properties import decode_properties, encode_properties
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.wire.codes import ResponseCode
from pymq.wire.headers.send import ConsumerSendMsgBackHeader
from tests.broker.world import BORN_HOST, World

VERSION = 479


def send_back(world: World, offset: int, *, level: int = 0, version: int = VERSION, **fields: Any) -> bool:
    header = ConsumerSendMsgBackHeader(offset=offset, group="g", delay_level=level, **fields)
    stored = world.parts.messages.retries.send_back(header, version)
    world.parts.messages.writer.commit()
    return stored


def test_the_first_retry_waits_on_level_three_with_its_origin() -> None:
    world = World()
    placed = world.put("T", b"body", TAGS="A", KEYS="k", UNIQ_KEY="U1")
    assert send_back(world, placed.physical_offset)
    (waiting,) = world.messages("SCHEDULE_TOPIC_XXXX", 2)
    assert waiting.body == b"body" and waiting.reconsume_times == 1
    properties = waiting.properties
    assert properties["RETRY_TOPIC"] == "T" and properties["REAL_TOPIC"] == "%RETRY%g"
    assert properties["DELAY"] == "3" and properties["WAIT"] == "false"
    assert properties["ORIGIN_MESSAGE_ID"] == world.messages("T")[0].offset_message_id
    assert (properties["TAGS"], properties["UNIQ_KEY"]) == ("A", "U1")
    topic = world.parts.metadata.topics.require("%RETRY%g")
    assert topic.write_queue_nums == 1


def test_delays_grow_with_each_try_and_end_at_the_last_level() -> None:
    world = World()
    for times, level in ((0, 3), (5, 8), (15, 18)):
        placed = world.put("%RETRY%g", reconsume_times=times, RETRY_TOPIC="T", ORIGIN_MESSAGE_ID="ID")
        send_back(world, placed.physical_offset)
        found = world.messages("SCHEDULE_TOPIC_XXXX", level - 1)
        assert [message.reconsume_times for message in found] == [times + 1]
        assert found[0].properties["RETRY_TOPIC"] == "T" and found[0].properties["ORIGIN_MESSAGE_ID"] == "ID"


def test_a_level_asked_for_is_taken_and_bounded() -> None:
    world = World()
    placed = world.put("T")
    send_back(world, placed.physical_offset, level=1)
    send_back(world, placed.physical_offset, level=99)
    assert len(world.messages("SCHEDULE_TOPIC_XXXX", 0)) == 1
    assert len(world.messages("SCHEDULE_TOPIC_XXXX", 17)) == 1


@pytest.mark.parametrize(
    ("times", "level", "limit", "version", "is_dead"),
    [
        (16, 0, None, VERSION, True),
        (15, 0, None, VERSION, False),
        (0, -1, None, VERSION, True),
        (2, 0, 2, VERSION, True),
        (2, 0, 2, 120, False),
    ],
)
def test_dead_letters_after_the_last_try(
    times: int, level: int, limit: int | None, version: int, is_dead: bool
) -> None:
    world = World()
    earlier: dict[str, Any] = {
        "RETRY_TOPIC": "T",
        "ORIGIN_MESSAGE_ID": "ID",
        "DELAY": "5",
        "REAL_TOPIC": "%RETRY%g",
        "REAL_QID": "0",
    }
    placed = world.parts.messages.writer.put(
        "%RETRY%g",
        0,
        Draft(b"x", encode_properties(earlier), 0, BORN_HOST, reconsume_times=times),
        redirect_delay=False,
    )
    world.parts.messages.writer.commit()
    send_back(world, placed.physical_offset, level=level, version=version, max_reconsume_times=limit)
    dead = world.messages("%DLQ%g")
    assert bool(dead) == is_dead
    counted = {key: meter.count for key, meter in world.parts.stats.dead_letters.items()}
    assert counted == ({("T", "g"): 1} if is_dead else {})
    if dead:
        assert "DELAY" not in dead[0].properties and "REAL_TOPIC" not in dead[0].properties
        assert dead[0].properties["DLQ_ORIGIN_TOPIC"] == "T" and dead[0].properties["DLQ_ORIGIN_MESSAGE_ID"] == "ID"
        assert world.parts.metadata.topics.require("%DLQ%g").perm == 6


def test_a_group_without_retry_queues_drops() -> None:
    world = World()
    world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="g", retry_queue_nums=0)])
    assert not send_back(world, world.put("T").physical_offset)
    assert world.parts.metadata.topics.get("%RETRY%g") is None


@pytest.mark.parametrize("offset", [-1, 1, 10**15])
def test_an_offset_where_no_message_starts_is_refused(offset: int) -> None:
    world = World()
    world.put("T")
    with pytest.raises(Refusal) as error:
        send_back(world, offset)
    assert error.value.code == ResponseCode.SYSTEM_ERROR and str(offset) in error.value.remark


def test_refusals_by_permission_and_unknown_group() -> None:
    world = World(brokerPermission="4")
    placed = world.put("T")
    with pytest.raises(Refusal) as error:
        send_back(world, placed.physical_offset)
    assert error.value.code == ResponseCode.NO_PERMISSION
    world = World(autoCreateSubscriptionGroup="false")
    with pytest.raises(Refusal) as error:
        send_back(world, world.put("T").physical_offset)
    assert error.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="%RETRY%g", perm=4)])
    with pytest.raises(Refusal) as error:
        send_back(world, world.put("T").physical_offset)
    assert error.value.code == ResponseCode.NO_PERMISSION


def test_a_client_s_own_retry_send_passes_until_its_tries_are_used_up() -> None:
    world = World()
    raw = encode_properties({"DELAY": "4", "KEYS": "k"})
    redirect = world.parts.messages.retries.redirect_direct_send
    assert redirect("%RETRY%g", 0, raw, 16, None) == ("%RETRY%g", 0, raw)
    topic, queue_id, properties = redirect("%RETRY%g", 0, raw, 17, None)
    assert (topic, queue_id) == ("%DLQ%g", 0)
    assert decode_properties(properties) == {"KEYS": "k"}
    assert redirect("%RETRY%g", 0, raw, 3, 2)[0] == "%DLQ%g"
    world.parts.metadata.leaser.lock_batch("g", "client", [MessageQueue("T", "broker-a", 0)])
    assert redirect("%RETRY%g", 0, raw, 1, None)[0] == "%DLQ%g"
    from_t = encode_properties({"RETRY_TOPIC": "T"})
    assert redirect("%RETRY%g", 0, from_t, 1, None)[0] == "%DLQ%g"
    counted = {key: meter.count for key, meter in world.parts.stats.dead_letters.items()}
    assert counted == {("%RETRY%g", "g"): 3, ("T", "g"): 1}

"""Lite topics: which sends are taken, what is stored, and what look-ups say. Expected values are RocketMQ 5.5.0's."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.handlers.lites import LITE_TOPICS_PER_PAGE_MAX
from pymq.model import fastjson
from pymq.model.lite_topics import LITE_NAME_SIZE_MAX_BYTES
from pymq.model.record import encode_batch_entry
from pymq.model.tables import TopicConfig
from pymq.store.store import LightEnds
from pymq.wire.codes import RequestCode as Code
from tests.broker.handlers.test_send import fields
from tests.broker.world import Caller, NoNetwork, World


class Lites:
    """A world with the parents P and Q, and the topic T, which is none."""

    def __init__(self, world: World | None = None, **settings: Any) -> None:
        self.world = world or World(**settings)
        lite = {"message.type": "LITE", "lite.topic.expiration": "60"}
        self.world.parts.metadata.topics.put(
            [
                TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4, attributes=attributes)
                for name, attributes in (("P", lite), ("Q", {"message.type": "LITE"}), ("T", {}))
            ]
        )
        self.caller = Caller(self.world)

    def send(self, lite: str | None, topic: str = "P", more: str = "", body: bytes = b"m", code: int = 310) -> Any:
        """Return the answer of a send, after its turn."""
        own = "" if lite is None else f"__LITE_TOPIC\x01{lite}\x02"
        reply = self.caller.ask(code, body, **fields(code, topic=topic, properties=f"UNIQ_KEY\x01AB\x02{own}{more}"))
        self.world.parts.end_turn()
        return reply if reply is not None else self.caller.peer.frames.pop()

    def ends(self, lite: str, parent: str = "P") -> LightEnds:
        return self.world.parts.store.lights.ends(parent, lite)


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2])
def test_a_message_of_a_lite_topic_is_in_its_parent_and_in_the_light_queue(code: int) -> None:
    p = Lites()
    for number in range(3):
        assert p.send("chat$1", code=code).code == 0
        assert p.ends("chat$1").max_offset == number + 1
    assert p.send("other", code=code).code == 0
    stored = p.world.messages("P", 1)
    assert [one.properties["INNER_MULTI_DISPATCH"] for one in stored] == ["%LMQ%$P$chat$1"] * 3 + ["%LMQ%$P$other"]
    assert [one.properties["INNER_MULTI_QUEUE_OFFSET"] for one in stored] == ["0", "1", "2", "0"]
    assert stored[0].properties["__LITE_TOPIC"] == "chat$1"
    assert p.ends("chat$1") == LightEnds(0, 3, p.world.clock.now_ms())


def test_other_topics_have_no_light_queues() -> None:
    p = Lites()
    assert p.send("a", topic="T").code == 0
    (stored,) = p.world.messages("T", 1)
    assert "INNER_MULTI_DISPATCH" not in stored.properties
    assert p.world.parts.store.lights.count == 0


def test_a_client_can_not_choose_a_place_in_a_light_queue() -> None:
    p = Lites()
    forged = "INNER_MULTI_DISPATCH\x01%LMQ%$P$b\x02INNER_MULTI_QUEUE_OFFSET\x0177\x02"
    for topic, lite in (("P", "a"), ("P", None), ("Q", None), ("T", "a")):
        assert p.send(lite, topic=topic, more=forged).code == 0
    assert p.world.messages("P", 1)[0].properties["INNER_MULTI_DISPATCH"] == "%LMQ%$P$a"
    assert "INNER_MULTI_DISPATCH" not in p.world.messages("P", 1)[1].properties
    p = Lites(p.world.reopened())
    assert (p.ends("a").max_offset, p.ends("b").max_offset, p.world.parts.store.lights.count) == (1, 0, 1)


@pytest.mark.parametrize(
    ("lite", "why"),
    [
        (" ", "the lite topic's name is blank"),
        ("n" * (LITE_NAME_SIZE_MAX_BYTES + 1), "256 bytes, the limit is 255"),
        ("a,b", "has a comma"),
        ("../../etc", "a slash"),
    ],
)
def test_other_names_are_refused(lite: str, why: str) -> None:
    p = Lites()
    reply = p.send(lite)
    assert reply.code == 13 and why in reply.remark
    assert not p.world.messages("P", 1)


def test_properties_leave_room_for_the_place() -> None:
    p = Lites()
    room = (
        32_767 - len("UNIQ_KEY\x01AB\x02__LITE_TOPIC\x01a\x02X\x01\x02") - len(p.world.parts.messages.writer.enrichment)
    )
    room -= len("INNER_MULTI_DISPATCH\x01%LMQ%$P$a\x02INNER_MULTI_QUEUE_OFFSET\x01\x02") + 19
    assert p.send("a", more=f"X\x01{'x' * room}\x02").code == 0
    reply = p.send("a", more=f"X\x01{'x' * (room + 1)}\x02")
    assert reply.code == 13 and "32768 bytes with those of the lite topic, the limit is 32767" in reply.remark
    assert p.send(None, more=f"X\x01{'x' * (room + 1)}\x02").code == 0


def test_a_new_lite_topic_beyond_the_limit_is_refused_with_2017() -> None:
    p = Lites(liteTopicCountMax=2)
    assert [p.send(lite).code for lite in ("a", "b", "a")] == [0, 0, 0]
    reply = p.send("c")
    assert reply.code == 2017
    assert "has 2 lite topics, the limit is 2 (liteTopicCountMax), and 'c' of P is new" in reply.remark
    assert p.send("b").code == 0


def test_a_batch_has_no_lite_topics() -> None:
    p = Lites()
    entry = encode_batch_entry(b"m", b"UNIQ_KEY\x01A\x02__LITE_TOPIC\x01a\x02")
    reply = p.caller.ask(Code.SEND_BATCH_MESSAGE, entry, **fields(topic="P", batch=True, properties="WAIT\x01true\x02"))
    assert reply is not None and reply.code == 13 and "one by one" in (reply.remark or "")


def test_a_delayed_message_is_in_the_light_queue_once_it_is_delivered() -> None:
    p = Lites()
    assert p.send("a", more="DELAY\x011\x02").code == 0
    assert p.ends("a").max_offset == 0
    p.world.clock.advance(2_000)
    p.world.parts.messages.delays.start()
    p.world.parts.messages.delays.tick()
    p.world.parts.end_turn()
    assert p.ends("a").max_offset == 1


def test_the_type_check_takes_lite_messages_only() -> None:
    p = Lites(enableTopicMessageTypeCheck="true")
    assert p.send("a").code == 0
    reply = p.send(None)
    assert reply.code == 13 and "takes LITE messages" in reply.remark and "__LITE_TOPIC" in reply.remark
    assert p.send("a", more="DELAY\x011\x02").code == 13


def test_offsets_of_a_light_queue_are_asked_for_by_its_name() -> None:
    p = Lites()
    for _ in range(2):
        p.send("a")
    ask: dict[str, Any] = {"topic": "%LMQ%$P$a", "queueId": 0}
    assert p.caller.header(Code.GET_MAX_OFFSET, **ask) == {"offset": "2"}
    assert p.caller.header(Code.GET_MIN_OFFSET, **ask) == {"offset": "0"}
    assert p.caller.header(Code.GET_MAX_OFFSET, topic="%LMQ%$P$none", queueId=0) == {"offset": "0"}


def test_look_ups() -> None:
    network = NoNetwork()
    p = Lites(World(liteTopicCountMax=100, network=network))
    for lite in ("a", "a", "b"):
        p.send(lite)
    now_ms = p.world.clock.now_ms()
    assert p.caller.json(Code.GET_BROKER_LITE_INFO) == {
        "storeType": "default", "maxLmqNum": 100, "currentLmqNum": 2, "liteSubscriptionCount": 0, "orderInfoCount": 0,
        "cqTableSize": 2, "offsetTableSize": 0, "eventMapSize": 0, "topicMeta": {"P": 60, "Q": -1}, "groupMeta": {},
    }  # fmt: skip
    assert p.caller.json(Code.GET_PARENT_TOPIC_INFO, topic="P") == {
        "topic": "P", "ttl": 60, "lmqNum": 2, "liteTopicCount": 2
    }  # fmt: skip
    assert p.caller.ask(Code.GET_LITE_TOPIC_INFO, parentTopic="P", liteTopic="a") is None
    while network.failing:
        network.failing.pop()()
    assert fastjson.loads(p.caller.peer.answers.pop().body) == {
        "parentTopic": "P", "liteTopic": "a", "subscriber": [], "shardingToBroker": False,
        "topicOffset": {"minOffset": 0, "maxOffset": 2, "lastUpdateTimestamp": now_ms},
    }  # fmt: skip
    others: list[tuple[int, dict[str, Any]]] = [
        (Code.GET_PARENT_TOPIC_INFO, {"topic": "T"}),
        (Code.GET_LITE_TOPIC_INFO, {"parentTopic": "T", "liteTopic": "a"}),
    ]
    for code, ask in others:
        assert p.caller.refused(code, **ask) == (
            29,
            "topic T has no lite topics: only topics with message.type=LITE have them",
        )
    assert p.caller.refused(Code.GET_PARENT_TOPIC_INFO, topic="None")[0] == 17


def test_a_broker_names_lite_topics_in_pages() -> None:
    p = Lites()
    for lite in ("b", "a", "c", "a"):
        assert p.send(lite).code == 0

    def page(start: int, count: int) -> Any:
        reply = p.caller.ask(Code.GET_PARENT_TOPIC_INFO, topic="P", pymqStart=start, pymqCount=count)
        return reply if reply.code else fastjson.loads(reply.body).get("pymqLiteTopics")

    assert page(0, 2) == [["b", 1], ["a", 2]]
    assert page(2, LITE_TOPICS_PER_PAGE_MAX) == [["c", 1]]
    assert page(3, 2) == [] and page((1 << 31) - 1, 2) == [] and page(0, 0) is None
    for start, count in ((-1, 1), (0, -1), (0, LITE_TOPICS_PER_PAGE_MAX + 1)):
        assert page(start, count).code == 29


@pytest.mark.parametrize(
    ("value", "is_legal"), [("-1", True), ("0", True), ("43200", True), ("43201", False), ("x", False)]
)
def test_the_expiration_is_checked(value: str, is_legal: bool) -> None:
    caller = Caller(World())
    ask: dict[str, Any] = {
        "topic": "New", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "order": "false",
        "attributes": f"+message.type=LITE,+lite.topic.expiration={value}",
    }  # fmt: skip
    if is_legal:
        caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **ask)
    else:
        code, remark = caller.refused(Code.UPDATE_AND_CREATE_TOPIC, **ask)
        assert code == 29 and f"lite.topic.expiration={value}: write minutes from 0 to 43200, or -1 for never" in remark

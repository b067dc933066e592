"""Codes 324 and 325: the push to the requester (326), the stored copy, and what the replier is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pymq.model.properties import decode_properties
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.header import encode_header
from pymq.wire.reply import Reply
from tests.broker.assembly.test_security import callers
from tests.broker.disk import failing
from tests.broker.handlers.test_send import fields
from tests.broker.world import Caller, World

TOPIC = "DefaultCluster_REPLY_TOPIC"
PROPERTIES = "CORRELATION_ID\x01c-1\x02REPLY_TO_CLIENT\x01me@1\x02TTL\x013000\x02MSG_TYPE\x01reply\x02"


def beat(client_id: str, *groups: str) -> bytes:
    return json.dumps({"clientID": client_id, "producerDataSet": [{"groupName": one} for one in groups]}).encode()


class Setup:
    """A requester me@1 of the producer group PG, and a replier."""

    def __init__(self, **settings: Any) -> None:
        self.world = World(**settings)
        self.requester = Caller(self.world, "127.0.0.1:1000")
        self.requester.ok(Code.HEART_BEAT, beat("me@1", "PG"))
        self.replier = Caller(self.world, "127.0.0.1:2000")

    def reply(self, code: int = Code.SEND_REPLY_MESSAGE_V2, body: bytes = b"answer", **changes: Any) -> None:
        """Reply and end the turn."""
        header = {"topic": TOPIC, "queue_id": 0, "properties": PROPERTIES, **changes}
        named = Code.SEND_MESSAGE if code == Code.SEND_REPLY_MESSAGE else code
        assert self.replier.ask(code, body, **fields(named, **header)) is None
        self.world.parts.messages.writer.commit()

    def refused(self, **changes: Any) -> tuple[int, str]:
        header = {"topic": TOPIC, "queue_id": 0, "properties": PROPERTIES, **changes}
        body = header.pop("body", b"answer")
        found = self.replier.refused(Code.SEND_REPLY_MESSAGE_V2, body, **fields(**header))
        assert self.requester.peer.asked == []
        return found

    def take(self, code: int = 0) -> Command:
        """Have the requester answer the oldest push; return it."""
        question, on_answer, _ = self.requester.peer.asked.pop(0)
        on_answer(Command(code, flag=1))
        return question

    def answer(self) -> tuple[Reply, dict[str, str]]:
        """Return what the replier was told, with its fields."""
        (reply,) = self.replier.peer.answers
        ext = reply.ext if isinstance(reply.ext, dict) else encode_header(reply.ext) if reply.ext else {}
        return reply, ext


@pytest.mark.parametrize("code", [Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2])
def test_a_reply_is_pushed_with_its_time_and_stored_as_it_came(code: int) -> None:
    setup = Setup()
    setup.reply(code)
    assert setup.replier.peer.answers == [], "the replier is told before the requester has it"
    pushed = setup.take()
    now = str(setup.world.clock.now_ms())
    assert (pushed.code, pushed.body) == (Code.PUSH_REPLY_MESSAGE_TO_CLIENT, b"answer")
    assert decode_properties(pushed.ext.pop("properties").encode()) == {
        **decode_properties(PROPERTIES.encode()),
        "PUSH_REPLY_TIME": now,
    }
    assert pushed.ext == {
        "producerGroup": "PG",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1700000000001",
        "flag": "5",
        "bornHost": "127.0.0.1:2000",
        "storeHost": "127.0.0.1:10911",
        "storeTimestamp": now,
    }
    reply, ext = setup.answer()
    (stored,) = setup.world.messages(TOPIC)
    assert reply.code == 0 and reply.remark is None
    assert ext["msgId"] == stored.offset_message_id and ext["queueOffset"] == "0" and "transactionId" not in ext
    assert (stored.body, stored.raw_properties.decode(), stored.flag) == (b"answer", PROPERTIES, 5)


@pytest.mark.parametrize("outcome", ["missing", "no client named", "silent", "refused", "behind"])
def test_a_reply_that_no_client_takes_is_refused_and_stored(outcome: str) -> None:
    setup = Setup()
    setup.requester.peer.is_behind = outcome == "behind"
    properties = {"missing": PROPERTIES.replace("me@1", "gone@1"), "no client named": "MSG_TYPE\x01reply\x02"}
    setup.reply(properties=properties.get(outcome, PROPERTIES))
    if outcome in ("silent", "refused"):
        assert setup.replier.peer.answers == []
        ((_, on_answer, timeout_ms),) = setup.requester.peer.asked
        assert timeout_ms == 10_000
        on_answer(None if outcome == "silent" else Command(ResponseCode.SYSTEM_ERROR, flag=1))
    reply, ext = setup.answer()
    part = {"missing": "channel of <gone@1> not found", "no client named": "REPLY_TO_CLIENT"}
    assert reply.code == ResponseCode.SYSTEM_ERROR and part.get(outcome, "me@1") in (reply.remark or "")
    (stored,) = setup.world.messages(TOPIC)
    assert ext["msgId"] == stored.offset_message_id


def test_without_a_copy_the_answer_has_the_id_zero() -> None:
    setup = Setup(storeReplyMessageEnable="false")
    setup.reply(queue_id=-1)
    setup.take()
    reply, ext = setup.answer()
    assert (reply.code, ext["msgId"], ext["queueId"], ext["queueOffset"]) == (0, "0", "0", "0")
    assert ext["MSG_REGION"] == "DefaultRegion" and setup.world.messages(TOPIC) == []


def test_a_copy_that_fails_is_not_the_repliers_failure() -> None:
    setup = Setup()
    with failing(setup.world, "pwrite", "commitlog"):
        setup.reply()
    setup.take()
    reply, ext = setup.answer()
    assert (reply.code, ext["msgId"]) == (0, "0") and setup.world.messages(TOPIC) == []


def test_a_reply_to_an_unknown_topic_creates_it() -> None:
    setup = Setup()
    setup.reply(topic="Answers")
    setup.take()
    assert setup.answer()[0].code == 0 and len(setup.world.messages("Answers")) == 1


def test_a_delay_on_a_reply_is_not_kept() -> None:
    setup = Setup()
    setup.reply(properties=PROPERTIES + "DELAY\x015\x02")
    setup.take()
    assert len(setup.world.messages(TOPIC)) == 1 and setup.world.messages("SCHEDULE_TOPIC_XXXX", 4) == []


@pytest.mark.parametrize(
    ("changes", "code", "part"),
    [
        ({"body": b""}, ResponseCode.MESSAGE_ILLEGAL, "empty"),
        ({"queue_id": 9}, ResponseCode.INVALID_PARAMETER, "queue 9"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION, "system"),
        ({"properties": "A\x01" + "x" * 32_634 + "\x02"}, ResponseCode.MESSAGE_ILLEGAL, "32636"),
    ],
)
def test_what_a_send_refuses_a_reply_refuses(changes: dict[str, Any], code: int, part: str) -> None:
    setup = Setup()
    found, remark = setup.refused(**changes)
    assert found == code and part in remark and setup.world.messages(TOPIC) == []


def test_properties_that_just_leave_room_are_pushed() -> None:
    setup = Setup()
    room = 32_636 - len(PROPERTIES) - 3
    setup.reply(properties=PROPERTIES + "A\x01" + "x" * room + "\x02")
    assert len(setup.take().ext["properties"]) <= 32_767


def test_the_newest_connection_of_a_client_gets_its_replies() -> None:
    setup = Setup()
    again = Caller(setup.world, "127.0.0.1:1001")
    again.ok(Code.HEART_BEAT, beat("me@1", "PG", "PG2"))
    clients = setup.world.parts.metadata.clients
    assert clients.producer_peer("me@1") is again.peer
    clients.unregister(again.peer, "PG", None)
    assert clients.producer_peer("me@1") is again.peer, "it still produces for PG2"
    clients.disconnect(again.peer)
    assert clients.producer_peer("me@1") is setup.requester.peer
    setup.requester.ok(Code.HEART_BEAT, beat("me@2", "PG"))
    assert clients.producer_peer("me@1") is None and clients.producer_peer("me@2") is setup.requester.peer
    clients.disconnect(setup.requester.peer)
    assert len(clients._producer_ids) == 0


def test_a_user_s_replies_do_not_go_to_another_user_s_connection() -> None:
    world = World()
    known = callers(world)
    for name in ("administrator", "producer"):
        known[name].ok(Code.HEART_BEAT, beat("me@1", "PG"))
    named = fields(topic=TOPIC, queue_id=0, properties=PROPERTIES)
    assert known["administrator"].ask(Code.SEND_REPLY_MESSAGE_V2, b"answer", **named) is None
    assert len(known["administrator"].peer.asked) == 1 and known["producer"].peer.asked == []


def test_every_user_may_reply_and_has_a_copy_stored_by_the_right_to_publish() -> None:
    world = World()
    known = callers(world)
    known["producer"].ok(Code.HEART_BEAT, beat("me@1", "PG"))
    named = fields(topic=TOPIC, queue_id=0, properties=PROPERTIES)
    for name, copies in (("stranger", 0), ("administrator", 1)):
        assert known[name].ask(Code.SEND_REPLY_MESSAGE_V2, b"answer", **named) is None
        world.parts.messages.writer.commit()
        assert len(known["producer"].peer.asked) == 1, "the reply does not reach its requester"
        known["producer"].peer.asked.pop()[1](Command(0, flag=1))
        assert [reply.code for reply in known[name].peer.answers] == [ResponseCode.SUCCESS]
        assert len(world.messages(TOPIC)) == copies


def test_a_reply_to_another_topic_or_a_plain_send_to_that_of_replies_needs_the_right_to_publish() -> None:
    known = callers(World())
    known["producer"].ok(Code.HEART_BEAT, beat("me@1", "PG"))
    for code, topic in (
        (Code.SEND_REPLY_MESSAGE_V2, "T"),
        (Code.SEND_REPLY_MESSAGE_V2, "OtherCluster_REPLY_TOPIC"),
        (Code.SEND_MESSAGE_V2, TOPIC),
    ):
        found = known["stranger"].refused(code, b"x", **fields(topic=topic, queue_id=0, properties=PROPERTIES))
        assert found[0] == ResponseCode.NO_PERMISSION and f"Topic:{topic} " in found[1]
    assert known["producer"].peer.asked == []

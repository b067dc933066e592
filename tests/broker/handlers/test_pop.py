"""Codes 200050 to 200055 and 200151: hand-outs, acknowledgements, and what comes again."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.broker.handlers.pop_checks import INVISIBLE_MAX_MS
from pymq.errors import StoreUnavailableError
from pymq.model import pop
from pymq.model.draft import Draft
from pymq.model.record import StoredMessage, decode_records
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command, encode_command
from tests.broker.handlers.test_send import refusal
from tests.broker.world import Caller, FakePeer, World

REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"


@dataclass
class Found:
    """A pop's answer."""

    code: int
    ext: dict[str, str]
    messages: list[StoredMessage]

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    def receipt(self, number: int = 0) -> dict[str, Any]:
        """Return the fields that name one of the messages, as a client makes them."""
        message = self.messages[number]
        ready = message.properties.get("POP_CK")
        flag = int(ready.split(" ")[4]) if ready else 0
        starts = {}
        for each in self.ext["startOffsetInfo"].split(";"):
            retry_flag, queue_id, start = map(int, each.split(" "))
            starts[retry_flag, queue_id] = start
        own = pop.Receipt(
            starts[flag, message.queue_id],
            int(self.ext["popTime"]),
            int(self.ext["invisibleTime"]),
            int(self.ext["reviveQid"]),
            flag,
            "broker-a",
        )
        text = pop.encode_receipt(own, message.queue_id, message.queue_offset)
        assert ready in (None, text)
        topic = pop.retry_topic_v1("g", message.topic) if flag == 1 else message.topic
        topic = pop.retry_topic_v2("g", message.topic) if flag == 2 else topic
        return {"topic": topic, "queueId": message.queue_id, "extraInfo": text, "offset": message.queue_offset}


class Popping:
    """A world with topic T and a client that pops it for group g."""

    def __init__(self, world: World | None = None, queue_count: int = 1, **settings: Any) -> None:
        self.world = world or World(**settings)
        if world is None:
            topic = TopicConfig(topic_name="T", read_queue_nums=queue_count, write_queue_nums=queue_count)
            self.world.parts.metadata.topics.put([topic])
        self.caller = Caller(self.world)
        self.peer: FakePeer = self.caller.peer
        self.dispatcher = broker_dispatcher(self.world.parts)

    def ask(self, code: int, body: bytes = b"", **ext: Any) -> tuple[int, dict[str, str], bytes]:
        """Return code, fields and body of the answer, which must come with the turn's end."""
        reply = self.caller.ask(code, body, **ext)
        if reply is not None:
            answer = reply.to_command(Command(code))
            return answer.code, answer.ext, answer.body
        self.world.parts.end_turn()
        return self.late()

    def late(self) -> tuple[int, dict[str, str], bytes]:
        """Return the answer that came late."""
        if self.peer.frames:
            frame = self.peer.frames.pop(0)
            return frame.code, frame.ext, frame.body
        assert self.peer.answers, "no answer"
        answer = self.peer.answers.pop(0).to_command(Command(0))
        return answer.code, answer.ext, answer.body

    def pop(self, count: int = 32, invisible_ms: int = 60_000, poll_ms: int = 0, **ext: Any) -> Found:
        return self.found(self.ask(Code.POP_MESSAGE, **self.fields(count, invisible_ms, poll_ms, **ext)))

    def park(self, poll_ms: int = 10_000, **ext: Any) -> None:
        """Pop, and find nothing yet."""
        assert self.caller.ask(Code.POP_MESSAGE, **self.fields(32, 60_000, poll_ms, **ext)) is None
        self.world.parts.end_turn()
        assert not self.peer.frames and not self.peer.answers

    def fields(self, count: int, invisible_ms: int, poll_ms: int, **ext: Any) -> dict[str, Any]:
        return {
            "consumerGroup": "g", "topic": "T", "queueId": -1, "maxMsgNums": count, "invisibleTime": invisible_ms,
            "pollTime": poll_ms, "bornTime": self.world.clock.now_ms(), "initMode": 0, **ext,
        }  # fmt: skip

    @staticmethod
    def found(answer: tuple[int, dict[str, str], bytes]) -> Found:
        code, ext, body = answer
        return Found(code, ext, decode_records(body))

    def ack(self, receipt: dict[str, Any], **ext: Any) -> int:
        return self.ask(Code.ACK_MESSAGE, **{"consumerGroup": "g", **receipt, **ext})[0]

    def ack_together(self, receipts: list[dict[str, Any]], is_fast: Callable[[], bool] = lambda: True) -> list[int]:
        """Acknowledge in one turn, by the fast path where ``is_fast`` says so. Return the codes of the answers."""
        codes: dict[int, int] = {}
        for number, receipt in enumerate(receipts):
            ext = {name: str(value) for name, value in {"consumerGroup": "g", **receipt}.items()}
            command = Command(Code.ACK_MESSAGE, opaque=number, ext=ext)
            if is_fast() and self.world.parts.requests.fast_path(self.peer, encode_command(command)[4:]):  # type: ignore[arg-type]
                continue
            reply = self.dispatcher.dispatch(self.peer, command)
            if reply is not None:
                codes[number] = reply.code
        self.world.parts.end_turn()
        codes |= {frame.opaque: frame.code for frame in self.peer.frames}
        self.peer.frames.clear()
        return [codes[number] for number in range(len(receipts))]

    def change(self, receipt: dict[str, Any], invisible_ms: int) -> tuple[int, dict[str, str]]:
        fields = {"consumerGroup": "g", **receipt, "invisibleTime": invisible_ms}
        return self.ask(Code.CHANGE_MESSAGE_INVISIBLETIME, **fields)[:2]

    def wait(self, ms: int) -> None:
        """Let time pass, and the periodic work run at its end."""
        self.world.clock.advance(ms)
        self.tick()

    def tick(self) -> None:
        parts = self.world.parts
        parts.pop.reviver.tick()
        parts.pop.ordered_queues.tick()
        parts.end_turn()
        parts.requests.pop_polls.tick()
        parts.after_turn()
        parts.end_turn()


def test_a_pop_hands_messages_out_once() -> None:
    p = Popping()
    for number in range(3):
        p.world.put("T", b"%d" % number)
    found = p.pop(count=2)
    assert found.bodies == [b"0", b"1"]
    assert found.ext["startOffsetInfo"] == "0 0 0" and found.ext["msgOffsetInfo"] == "0 0 0,1"
    assert found.ext["restNum"] == "1" and found.ext["invisibleTime"] == "60000"
    assert found.ext["popTime"] == str(p.world.clock.now_ms())
    assert p.pop().bodies == [b"2"]
    empty = p.pop()
    assert (empty.code, empty.ext["startOffsetInfo"]) == (ResponseCode.POLLING_TIMEOUT, "")


def test_big_messages_fill_an_answer_and_one_above_its_limit_comes_alone() -> None:
    p = Popping(queue_count=2, maxTransferBytesOnMessageInMemory=200_000)
    sizes = [90_000, 90_000, 90_000, 300_000, 90_000]
    for number, size in enumerate(sizes):
        p.world.put("T", b"%d" % number * size)
    pops = []
    while (found := p.pop()).messages:
        pops.append([message.body[:1] for message in found.messages])
        assert len(found.messages) == 1 or sum(len(message.body) for message in found.messages) <= 200_000
        assert all(p.ack(found.receipt(number)) == 0 for number in range(len(found.messages)))
    assert [first for popped in pops for first in popped] == [b"0", b"1", b"2", b"3", b"4"]
    assert [b"3"] in pops and len(pops[0]) == 2
    p.wait(120_000)
    assert p.pop().bodies == []


def test_the_records_in_the_revive_topic_are_rocketmqs() -> None:
    p = Popping()
    p.world.put("T", b"a")
    p.world.put("T", b"b")
    found = p.pop(invisible_ms=5000)
    assert p.ack(found.receipt(1)) == 0
    now = p.world.clock.now_ms()
    point, ack = p.world.messages(REVIVE, int(found.ext["reviveQid"]))
    assert json.loads(point.body) == {
        "bm": 0, "bn": "broker-a", "c": "g", "d": [0, 1], "it": 5000, "n": 2, "pt": now, "q": 0,
        "reviveTime": now + 5000, "ro": 0, "so": 0, "t": "T",
    }  # fmt: skip
    assert point.body.startswith(b'{"bm":0,"bn":"broker-a","c":"g","d":[0,1],"it":5000,"n":2,"pt":')
    assert point.properties == {
        "TIMER_DELIVER_MS": str(now), "TAGS": "ck", "UNIQ_KEY": f"T@0@0@g@{now}@broker-a@ck",
    }  # fmt: skip
    assert ack.body == b'{"ao":1,"bn":"broker-a","c":"g","pt":%d,"q":0,"so":0,"t":"T"}' % now
    assert ack.properties["UNIQ_KEY"] == f"T@0@1@g@{now}@broker-a@ack"


def test_what_is_not_acknowledged_comes_again_when_its_time_is_over_and_not_before() -> None:
    p = Popping()
    for body in (b"a", b"b", b"c"):
        p.world.put("T", body, TAGS="x", KEYS="k")
    found = p.pop(invisible_ms=10_000)
    assert p.ack(found.receipt(1)) == 0
    p.wait(9_999)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    p.wait(1)
    again = p.pop()
    assert again.bodies == [b"a", b"c"]
    assert [message.topic for message in again.messages] == ["T", "T"]
    assert [message.reconsume_times for message in again.messages] == [1, 1]
    assert again.messages[0].properties["1ST_POP_TIME"] == found.ext["popTime"]
    assert again.messages[0].tags == "x"
    assert again.ext["startOffsetInfo"] == "2 0 0" and again.ext["msgOffsetInfo"] == "2 0 0,1"
    for number in range(2):
        assert p.ack(again.receipt(number)) == 0
    p.wait(10_000_000)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    assert not p.world.parts.pop.revive_log.check_points


def test_a_message_that_is_never_acknowledged_becomes_a_dead_letter() -> None:
    p = Popping()
    p.world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="g", retry_max_times=2)])
    p.world.put("T", b"a")
    for times in range(3):
        found = p.pop(invisible_ms=1000)
        assert [message.reconsume_times for message in found.messages] == [times]
        p.wait(1000)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    (dead,) = p.world.messages("%DLQ%g")
    assert dead.body == b"a" and dead.properties["DLQ_ORIGIN_TOPIC"] == "T"
    assert "POP_CK" not in dead.properties


def test_a_new_invisible_time_counts_from_now_and_ends_the_old_receipt() -> None:
    p = Popping()
    p.world.put("T", b"a")
    p.world.put("T", b"b")
    found = p.pop(invisible_ms=5000)
    assert p.ack(found.receipt(1)) == 0
    p.world.clock.advance(4000)
    code, ext = p.change(found.receipt(0), 30_000)
    assert code == 0 and ext["popTime"] == str(p.world.clock.now_ms()) and ext["invisibleTime"] == "30000"
    p.wait(29_999)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    assert p.ack(found.receipt(0)) == 0  # of the old receipt: without effect
    p.wait(1)
    assert p.pop().bodies == [b"a"]


def test_the_new_receipt_acknowledges() -> None:
    p = Popping()
    p.world.put("T", b"a")
    found = p.pop(invisible_ms=5000)
    _, ext = p.change(found.receipt(), 30_000)
    text = f"0 {ext['popTime']} 30000 {ext['reviveQid']} 0 broker-a 0 0"
    assert p.ack({**found.receipt(), "extraInfo": text}) == 0
    p.wait(40_000)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT


@pytest.mark.parametrize("invisible_ms", [-1, -(2**63), INVISIBLE_MAX_MS + 1, 2**63 - 1])
def test_negative_and_endless_invisible_times_are_refused(invisible_ms: int) -> None:
    p = Popping()
    p.world.put("T")
    assert p.pop(invisible_ms=invisible_ms).code == ResponseCode.INVALID_PARAMETER
    found = p.pop(invisible_ms=INVISIBLE_MAX_MS)
    assert p.change(found.receipt(), invisible_ms)[0] == ResponseCode.INVALID_PARAMETER


def test_no_invisible_time_at_all_brings_a_message_back_at_once() -> None:
    p = Popping()
    p.world.put("T", b"a")
    assert p.pop(invisible_ms=0).bodies == [b"a"]
    p.tick()
    found = p.pop()
    assert found.bodies == [b"a"]
    assert p.change(found.receipt(), 0)[0] == 0
    p.wait(1)
    assert p.pop().bodies == [b"a"]


def test_double_late_and_forged_acknowledgements_change_nothing_and_write_nothing() -> None:
    p = Popping()
    p.world.put("T", b"a")
    p.world.put("T", b"b")
    found = p.pop(invisible_ms=1000)
    receipt = found.receipt(0)
    assert p.ack(receipt) == 0
    end = p.world.parts.store.physical_max_offset
    assert p.ack(receipt) == 0
    parts = found.receipt(1)["extraInfo"].split(" ")
    for number, value in ((0, "1"), (1, "1"), (5, "broker-b")):
        forged = " ".join([*parts[:number], value, *parts[number + 1 :]])
        assert p.ack({**found.receipt(1), "extraInfo": forged}) == 0
    assert p.ack(found.receipt(1), consumerGroup="other") == 0
    assert p.world.parts.store.physical_max_offset == end
    p.wait(1000)
    end = p.world.parts.store.physical_max_offset
    assert p.ack(found.receipt(1)) == 0  # late: the message is in the retry topic already
    assert p.change(found.receipt(1), 1000)[0] == ResponseCode.NO_MESSAGE
    assert p.world.parts.store.physical_max_offset == end
    assert p.world.parts.requests.pops.ineffective_ack_count == 6
    assert p.pop().bodies == [b"b"]


@pytest.mark.parametrize(
    ("text", "named"),
    [("", "1 parts"), ("0 1 2 3 0", "5 parts"), ("0 x 2 3 0 b", "pop time"), ("9" * 40 + " 1 2 3 0 b", "start")],
)
def test_a_receipt_that_is_none_is_refused_by_its_part(text: str, named: str) -> None:
    p = Popping()
    p.world.put("T")
    fields: dict[str, Any] = {"consumerGroup": "g", "topic": "T", "queueId": 0, "offset": 0, "extraInfo": text}
    code, remark = p.caller.refused(Code.ACK_MESSAGE, **fields)
    assert code == ResponseCode.SYSTEM_ERROR and named in remark


def test_acknowledgements_of_what_is_not_there_are_refused() -> None:
    p = Popping()
    p.world.put("T")
    fields: dict[str, Any] = {"consumerGroup": "g", "topic": "T", "queueId": 0, "offset": 2, "extraInfo": "0 1 2 3 0 b"}
    assert p.caller.refused(Code.ACK_MESSAGE, **fields)[0] == ResponseCode.NO_MESSAGE
    assert p.caller.refused(Code.ACK_MESSAGE, **{**fields, "queueId": 1})[0] == ResponseCode.MESSAGE_ILLEGAL
    assert p.caller.refused(Code.ACK_MESSAGE, **{**fields, "topic": "No"})[0] == ResponseCode.TOPIC_NOT_EXIST
    assert p.ack({**fields, "offset": 1}) == 0


def test_pops_that_make_no_sense_are_refused_with_all_numbers() -> None:
    p = Popping()
    for wrong, code in (
        ({"maxMsgNums": 33}, ResponseCode.INVALID_PARAMETER),
        ({"maxMsgNums": 0}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": 1}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "No"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"consumerGroup": "g/g"}, ResponseCode.INVALID_PARAMETER),
        ({"consumerGroup": "g" * 250}, ResponseCode.INVALID_PARAMETER),  # no name is left for its retry topic
        ({"expType": "SQL92", "exp": "a >"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ):
        found = p.pop(**wrong)
        assert found.code == code
        assert {found.ext[name] for name in ("popTime", "invisibleTime", "reviveQid", "restNum")} == {"0"}


def test_a_pop_that_comes_too_late_gets_nothing() -> None:
    p = Popping()
    p.world.put("T")
    born = p.world.clock.now_ms() - 10_000
    assert p.pop(poll_ms=9_499, bornTime=born).code == ResponseCode.POLLING_TIMEOUT
    assert p.pop(poll_ms=9_500, bornTime=born).code == 0


def test_tags_and_expressions_select_and_pass_the_rest_for_the_group() -> None:
    p = Popping()
    for tag in ("a", "b", "a"):
        p.world.put("T", tag.encode(), TAGS=tag, n=tag)
    assert p.pop(exp="a").bodies == [b"a", b"a"]
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    for tag in ("a", "b"):
        p.world.put("T", tag.encode(), n=tag)
    assert p.pop(expType="SQL92", exp="n = 'b'").bodies == [b"b"]


def test_a_group_without_an_offset_begins_at_the_end_when_the_topic_is_old() -> None:
    p = Popping()
    p.world.put("T", b"a")
    p.world.put("T", b"b")
    assert p.pop(initMode=1).bodies == [b"a", b"b"]  # a young topic is delivered whole
    assert p.world.parts.metadata.cursors.query("g", "T", 0) == 2


# -- waiting ------------------------------------------------------------------------------------------------------


def test_a_waiting_pop_is_answered_by_an_arrival_and_others_wait_on() -> None:
    p = Popping(queue_count=2)
    p.park()
    p.park(queueId=1)
    p.park(queueId=1)
    p.world.put("T", b"a", queue_id=1)
    p.tick()
    assert p.found(p.late()).bodies == [b"a"]
    assert not p.peer.frames and not p.peer.answers
    assert p.world.parts.requests.pop_polls.count == 2


def test_a_waiting_pop_ends_in_time() -> None:
    p = Popping()
    p.park(poll_ms=5000)
    p.wait(4949)
    assert not p.peer.answers
    p.wait(1)
    assert p.late()[0] == ResponseCode.POLLING_TIMEOUT
    assert p.world.parts.requests.pop_polls.count == 0


def test_a_release_answers_all_pops_that_wait_and_lets_none_wait_meanwhile() -> None:
    p = Popping()
    polls = p.world.parts.requests.pop_polls
    p.park()
    p.park()
    assert not polls.release_some()
    assert [answer.code for answer in p.peer.answers] == [ResponseCode.POLLING_TIMEOUT] * 2 and polls.count == 0
    assert p.pop(poll_ms=5000).code == ResponseCode.POLLING_FULL


def test_messages_that_come_again_wake_the_group_that_waits() -> None:
    p = Popping()
    p.world.put("T", b"a")
    p.pop(invisible_ms=1000)
    p.park()
    p.wait(1000)
    assert p.found(p.late()).bodies == [b"a"]


def test_a_pop_that_waited_is_answered_in_the_next_turn_which_stores_its_check_point() -> None:
    p = Popping()
    p.park()
    p.world.put("T", b"late")
    assert p.world.parts.after_turn(), "its answer would wait for the next tick"
    p.world.parts.end_turn()
    assert p.found(p.late()).bodies == [b"late"]
    assert not p.world.parts.after_turn()


def test_a_waiting_pop_with_other_tags_waits_on() -> None:
    p = Popping()
    p.park(exp="a")
    p.world.put("T", b"b", TAGS="b")
    p.tick()
    assert not p.peer.frames and not p.peer.answers
    p.world.put("T", b"a", TAGS="a")
    p.tick()
    assert p.found(p.late()).bodies == [b"a"]


def test_waiting_pops_are_bounded() -> None:
    p = Popping(popPollingSize="2")
    p.park()
    p.park()
    assert p.pop(poll_ms=10_000).code == ResponseCode.POLLING_FULL
    info: dict[str, Any] = {"consumerGroup": "g", "topic": "T", "queueId": -1}
    assert p.caller.header(Code.POLLING_INFO, **info) == {"pollingNum": "2"}
    p.world.parts.requests.disconnect(p.peer)
    assert p.caller.header(Code.POLLING_INFO, **info) == {"pollingNum": "0"}


def test_a_notification_comes_with_a_message() -> None:
    p = Popping()
    fields: dict[str, Any] = {"consumerGroup": "g", "topic": "T", "queueId": -1, "pollTime": 5000, "bornTime": 0}
    assert p.caller.ask(Code.NOTIFICATION, **fields) is None
    p.world.put("T", b"a")
    p.tick()
    assert p.late()[1] == {"hasMsg": "true", "pollingFull": "false"}
    assert p.ask(Code.NOTIFICATION, **fields)[1]["hasMsg"] == "true"
    p.pop()
    assert p.ask(Code.NOTIFICATION, **{**fields, "pollTime": 0})[1] == {"hasMsg": "false", "pollingFull": "false"}


def test_a_peek_counts_and_takes_nothing() -> None:
    p = Popping()
    p.world.put("T")
    p.world.put("T")
    fields: dict[str, Any] = {"consumerGroup": "g", "topic": "T", "queueId": 0, "maxMsgNums": 1}
    assert [p.ask(Code.PEEK_MESSAGE, **fields)[1]["restNum"] for _ in range(2)] == ["2", "2"]
    p.pop()
    assert p.ask(Code.PEEK_MESSAGE, **fields)[0] == ResponseCode.PULL_NOT_FOUND


# -- batches, names, limits ---------------------------------------------------------------------------------------


def batch(found: Found, bits: bytes, **changed: Any) -> bytes:
    entry = {
        "c": "g", "t": "T", "r": "0", "so": 0, "q": 0, "rq": int(found.ext["reviveQid"]),
        "pt": int(found.ext["popTime"]), "it": 1000, "b": base64.b64encode(bits).decode(), **changed,
    }  # fmt: skip
    return json.dumps({"brokerName": "broker-a", "acks": [entry]}).encode()


def test_a_batch_acknowledges_by_bits() -> None:
    p = Popping()
    for number in range(10):
        p.world.put("T", b"%d" % number)
    found = p.pop(invisible_ms=1000)
    assert p.ask(Code.BATCH_ACK_MESSAGE, batch(found, b"\xfe\x01"))[0] == 0
    assert p.ask(Code.BATCH_ACK_MESSAGE, batch(found, b"\xfe\x01"))[0] == 0
    p.wait(1000)
    again = p.pop(invisible_ms=1000)
    assert again.bodies == [b"0", b"9"]
    assert p.ask(Code.BATCH_ACK_MESSAGE, batch(again, b"\x03", r="2"))[0] == 0
    p.wait(1000)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    tags = [message.tags for queue_id in range(8) for message in p.world.messages(REVIVE, queue_id)]
    assert sorted(tags) == ["bAck", "bAck", "bAck", "ck", "ck"]  # one of them is the redelivery's


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", ResponseCode.NO_MESSAGE),
        (b'{"acks":[]}', ResponseCode.NO_MESSAGE),
        (b"no json", ResponseCode.SYSTEM_ERROR),
        (b'{"acks":[1]}', ResponseCode.SYSTEM_ERROR),
        (b'{"acks":[{"c":"g","t":"T","r":"7","so":0,"q":0,"rq":0,"pt":1}]}', ResponseCode.SYSTEM_ERROR),
        (json.dumps({"acks": [{}] * 4097}).encode(), ResponseCode.INVALID_PARAMETER),
    ],
)
def test_batches_that_make_no_sense_are_refused(body: bytes, code: int) -> None:
    assert Caller(World()).refused(Code.BATCH_ACK_MESSAGE, body)[0] == code


def test_bits_that_are_no_base64_are_refused_and_long_ones_name_no_other_messages() -> None:
    p = Popping()
    p.world.put("T", b"a")
    found = p.pop(invisible_ms=1000)
    assert p.ask(Code.BATCH_ACK_MESSAGE, batch(found, b"", b="?"))[0] == ResponseCode.SYSTEM_ERROR
    assert p.ask(Code.BATCH_ACK_MESSAGE, batch(found, b"\x00" + b"\xff" * 100_000))[0] == 0
    p.wait(1000)
    assert p.pop().bodies == [b"a"]


@pytest.mark.parametrize("is_v2", [False, True])
def test_both_names_of_retry_topics_are_written_and_read(is_v2: bool) -> None:
    p = Popping(enableRetryTopicV2=str(is_v2).lower())
    p.world.put("T", b"a")
    p.pop(invisible_ms=1000)
    p.wait(1000)
    assert p.world.parts.metadata.topics.get("%RETRY%g+T" if is_v2 else "%RETRY%g_T") is not None
    p.world.config.enable_retry_topic_v2 = not is_v2
    found = p.pop(invisible_ms=1000)
    assert found.bodies == [b"a"]
    assert found.ext["startOffsetInfo"] == f"{2 if is_v2 else 1} 0 0"
    assert p.ack(found.receipt()) == 0
    p.wait(1000)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT


@pytest.mark.parametrize("is_v2", [False, True])
def test_two_pairs_of_names_that_share_a_retry_topic_get_their_own_messages_alone(is_v2: bool) -> None:
    p = Popping(enableRetryTopicV2=str(is_v2).lower())
    pairs = [("pay", "ments_T"), ("pay_ments", "T"), ("pay_ments_T", "")]
    for group, topic in pairs[:2]:
        p.world.parts.metadata.topics.put([TopicConfig(topic_name=topic)])
        p.world.put(topic, f"of {topic}".encode())
        assert p.pop(consumerGroup=group, topic=topic, invisible_ms=1000).bodies == [f"of {topic}".encode()]
    p.wait(1000)
    for group, topic in pairs[:2]:
        again = p.pop(consumerGroup=group, topic=topic, invisible_ms=60_000)
        assert again.bodies == [f"of {topic}".encode()]
        assert p.pop(consumerGroup=group, topic=topic).messages == []
    assert (p.world.parts.metadata.topics.get("%RETRY%pay_ments_T") is None) is is_v2  # the push group's


def test_the_records_of_a_broker_with_an_ipv6_address_differ_in_hosts_only() -> None:
    brokers = Popping(brokerIP1="::1"), Popping()
    records = []
    for p in brokers:
        for body in (b"a", b"b", b"c"):
            p.world.put("T", body)
        found = p.pop(count=2)
        assert p.ack(found.receipt(1)) == p.ack(p.pop().receipt()) == 0
        records.append([m for queue_id in (1, 2) for m in p.world.messages(REVIVE, queue_id)])
    assert [len(each.store_host) for each in records[0]] == [20] * 4
    ipv6, ipv4 = ([(m.body, m.properties, m.queue_offset, m.flag) for m in each] for each in records)
    assert ipv6 == ipv4


def test_a_forwarded_message_gets_a_receipt_of_its_own() -> None:
    p = Popping()
    p.world.put("T", b"a", POP_CK="0 1 2 3 0 broker-b 0 0", KEYS="k")
    found = p.pop(invisible_ms=1000)
    assert found.messages[0].properties["POP_CK"] == found.receipt()["extraInfo"]
    assert p.ack(found.receipt()) == 0
    p.wait(1000)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT


def test_clients_may_not_send_to_the_revive_topic() -> None:
    code, remark = refusal(World(), topic=REVIVE, queue_id=0)
    assert code == ResponseCode.NO_PERMISSION and REVIVE in remark


@pytest.mark.parametrize(
    ("tag", "body"),
    [
        ("ck", b"no json"),
        ("ck", b'{"c":"g","t":"T","q":0,"so":0,"pt":5,"it":1,"d":[0,0]}'),
        ("ck", b'{"c":1}'),
        ("ack", b"[]"),
        ("other", b"x"),
        ("ck", b'{"c":"g","it":1,"n":99,"pt":1,"q":0,"so":0,"t":"T"}'),
    ],
)
def test_unreadable_records_stall_nothing(tag: str, body: bytes) -> None:
    p = Popping(reviveQueueNum="1")
    p.world.put(REVIVE, body, TAGS=tag)
    p.world.put("T", b"a")
    p.pop(invisible_ms=1000)
    p.wait(1000)
    assert p.pop().bodies == [b"a"]
    assert p.world.parts.pop.revive_log.unreadable_count >= 1


def test_hand_outs_of_a_group_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymq.broker.pop.check_points.GROUP_CHECK_POINT_COUNT_MAX", 2)
    p = Popping()
    for _ in range(3):
        p.world.put("T")
    first = p.pop(count=1)
    p.pop(count=1)
    assert p.pop(count=1).code == ResponseCode.SYSTEM_BUSY
    assert p.pop(count=1, consumerGroup="other").code == 0
    p.ack(first.receipt())
    assert p.pop(count=1).code == 0


# -- stops, failures, resets --------------------------------------------------------------------------------------


def test_after_a_restart_what_was_acknowledged_stays_away_and_the_rest_comes() -> None:
    p = Popping()
    for body in (b"a", b"b", b"c"):
        p.world.put("T", body)
    found = p.pop(count=2, invisible_ms=5000)
    assert p.ack(found.receipt(0)) == 0
    p = Popping(p.world.reopened())
    assert p.pop().bodies == [b"c"]
    assert p.ack(found.receipt(0)) == 0
    p.wait(5000)
    assert p.pop().bodies == [b"b"]


def test_a_receipt_outlives_a_restart() -> None:
    p = Popping()
    p.world.put("T", b"a")
    receipt = p.pop(invisible_ms=5000).receipt()
    p = Popping(p.world.reopened())
    assert p.ack(receipt) == 0
    p.wait(5000)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT


def test_a_group_and_a_retry_topic_that_a_kill_kept_from_being_saved_lose_no_messages() -> None:
    p = Popping()
    p.world.put("T", b"a")
    p.world.put("T", b"b")
    p.world.run_in_thread = lambda work, done: None  # nothing is saved from here on
    p.pop(count=1, invisible_ms=1000)
    p.wait(1000)
    p.pop(count=1)
    p = Popping(World(p.world.files.after_kill(), p.world.clock))
    metadata = p.world.parts.metadata
    assert metadata.groups.get("g") is None and metadata.topics.get("%RETRY%g+T") is None
    p.wait(60_000)
    assert sorted(p.pop().bodies) == [b"a", b"b"]


def test_a_kill_before_offsets_are_saved_hands_nothing_out_twice() -> None:
    p = Popping()
    p.world.put("T", b"a")
    receipt = p.pop(invisible_ms=5000).receipt()
    p = Popping(World(p.world.files.after_kill(), p.world.clock))
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    assert p.ack(receipt) == 0
    p = Popping(World(p.world.files.after_kill(), p.world.clock))
    p.wait(5000)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT


def test_what_is_finished_is_not_read_again() -> None:
    p = Popping(reviveQueueNum="1")
    for _ in range(20):
        p.world.put("T")
        assert p.ack(p.pop().receipt()) == 0
    p.wait(1000)
    assert p.world.parts.metadata.cursors.query(pop.REVIVE_GROUP, REVIVE, 0) == 39
    p.world.put("T")
    p.pop(count=1)
    p.wait(1000)
    assert p.world.parts.metadata.cursors.query(pop.REVIVE_GROUP, REVIVE, 0) == 39


def test_a_long_open_hand_out_is_written_again_with_its_acknowledgements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymq.broker.pop.reviver.RECORDS_BEHIND_MAX", 10)
    p = Popping(reviveQueueNum="1")
    p.world.put("T", b"a")
    p.world.put("T", b"b")
    old = p.pop(invisible_ms=3_600_000)
    assert p.ack(old.receipt(0)) == 0
    for _ in range(10):
        p.world.put("T", b"x")
        assert p.ack(p.pop().receipt()) == 0
    p.wait(1000)
    assert p.world.parts.metadata.cursors.query(pop.REVIVE_GROUP, REVIVE, 0) >= 20
    p = Popping(p.world.reopened())
    p.wait(3_600_000)
    assert p.pop().bodies == [b"b"]


def test_a_pop_whose_commit_fails_hands_nothing_out() -> None:
    p = Popping()
    p.world.put("T", b"a")
    p.world.parts.store.commit = _fail
    assert p.pop().code == ResponseCode.SERVICE_NOT_AVAILABLE
    del p.world.parts.store.commit
    p.world.parts.store.commit = p.world.parts.store._appender.commit
    assert p.pop().bodies == [b"a"]


def _fail(**_: bool) -> None:
    raise StoreUnavailableError("no space")


def test_a_reset_is_followed_while_messages_are_handed_out() -> None:
    p = Popping()
    for body in (b"a", b"b"):
        p.world.put("T", body)
    found = p.pop(invisible_ms=1000)
    p.world.parts.metadata.cursors.reset("g", "T", 0, 1)
    again = p.pop(invisible_ms=1000)
    assert again.bodies == [b"b"] and again.ext["startOffsetInfo"] == "0 0 1"
    assert p.ack(again.receipt()) == 0
    p.wait(1000)
    assert sorted(p.pop().bodies) == [b"a", b"b"]  # of the first hand-out, which the reset does not end
    assert found.bodies == [b"a", b"b"]


def test_a_reset_leaves_messages_in_retry_topics_of_both_versions() -> None:
    p = Popping()
    for body in (b"a", b"b", b"c"):
        p.world.put("T", body)
    p.pop(count=1, invisible_ms=1000)
    p.pop(count=1, invisible_ms=2000)
    p.wait(1000)
    p.world.config.enable_retry_topic_v2 = False
    p.wait(1000)
    fields: dict[str, Any] = {"topic": "T", "group": "g", "timestamp": -1, "offset": 3, "queueId": 0}
    p.caller.ok(Code.INVOKE_BROKER_TO_RESET_OFFSET, **fields, isForce="true")
    found = p.pop(invisible_ms=1000)
    assert sorted(found.bodies) == [b"a", b"b"]
    assert sorted(part.split(" ")[0] for part in found.ext["startOffsetInfo"].split(";")) == ["1", "2"]


def test_a_reset_wakes_a_pop_that_waits() -> None:
    p = Popping()
    p.world.put("T", b"a")
    assert p.ack(p.pop().receipt()) == 0
    p.park()
    p.caller.ok(Code.INVOKE_BROKER_TO_RESET_OFFSET, topic="T", group="g", timestamp=0, isForce="true")
    p.tick()
    assert p.found(p.late()).bodies == [b"a"]


@pytest.mark.parametrize("while_down", [False, True])
def test_a_clock_that_is_set_back_delays_nothing_by_more_than_the_invisible_time(while_down: bool) -> None:
    p = Popping()
    p.world.put("T", b"a")
    p.pop(invisible_ms=5000)
    p.tick()
    p.world.clock.set_wall(p.world.clock.now_ms() - 3_600_000)
    if while_down:
        p = Popping(p.world.reopened())
    p.wait(0)
    p.wait(4_999)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    p.wait(1)
    assert p.pop().bodies == [b"a"]


@pytest.mark.parametrize("tag", ["ack", "bAck", ""])
@pytest.mark.parametrize("overdue_ms", [0, 3_600_000])
def test_records_that_come_out_of_rocketmqs_timer_count(tag: str, overdue_ms: int) -> None:
    """A check point that another broker wrote comes first, its acknowledgement up to 3 s later."""
    p = Popping(reviveQueueNum="1")
    p.world.put("T", b"a")
    p.world.parts.metadata.cursors.hand_out("g", "T", 0, 1)
    now = p.world.clock.now_ms() - overdue_ms
    named = {"bn": "broker-a", "pt": now, "q": 0, "so": 0, "t": "T"}
    point = {**named, "bm": 0, "c": "g", "d": [0], "it": 1000, "n": 1, "reviveTime": now + 1000, "ro": 0}
    p.world.put(REVIVE, json.dumps(point).encode(), TAGS="ck", TIMER_OUT_MS=str(now))
    p.wait(1000)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    if tag:
        ack = {**named, "consumerGroup": "g", "ao": 0 if tag == "ack" else -1}
        ack |= {"aol": [0]} if tag == "bAck" else {}
        p.world.put(REVIVE, json.dumps(ack).encode(), TAGS=tag, TIMER_OUT_MS=str(now + 1000))
    p.wait(3000)
    assert p.pop().bodies == ([] if tag else [b"a"])


def test_messages_of_a_topic_that_is_gone_are_dropped() -> None:
    p = Popping()
    p.world.put("T", b"a")
    p.pop(invisible_ms=1000)
    p.world.parts.metadata.topics.delete("T")
    p.wait(1000)
    assert not p.world.parts.pop.revive_log.check_points
    assert p.world.parts.pop.reviver.dropped_count == 1


def test_a_delayed_message_is_not_delayed_again() -> None:
    p = Popping()
    p.world.parts.messages.writer.put("T", 0, Draft(b"a", b"DELAY\x013\x02", 0, b"\0" * 8), redirect_delay=False)
    p.world.parts.end_turn()
    p.pop(invisible_ms=1000)
    p.wait(1000)
    assert p.pop().bodies == [b"a"]

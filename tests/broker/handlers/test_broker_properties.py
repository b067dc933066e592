"""Properties that only the broker may set: no door takes them from a client."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.model.names import TIMER_TOPIC
from pymq.model.properties import (
    BROKER_ONLY,
    RETRY_ONLY,
    decode_properties,
    encode_properties,
    has_broker_word,
    sent_properties,
)
from pymq.model.record import encode_batch_entry
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.security.gatekeeper import Gatekeeper
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.headers.send import ConsumerSendMsgBackHeader
from tests.broker.assembly.test_security import callers, guard
from tests.broker.fast.test_send import binary_payload, ordinary, payload_of, send_both_ways
from tests.broker.handlers.test_send import fields, refusal, send, with_topic
from tests.broker.transactions.driver import TransactionProducer, world_with_topic
from tests.broker.world import World

RECALL = "TIMER_DEL_UNIQKEY"
STRIPPED = sorted(BROKER_ONLY - {RECALL})
OWN = {"UNIQ_KEY": "ABC123", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}


@pytest.mark.parametrize("name", sorted(BROKER_ONLY | RETRY_ONLY))
def test_each_name_has_a_word_that_is_looked_for(name: str) -> None:
    assert has_broker_word(f"{name}\x01x\x02")
    assert "_" in name  # the fast path looks no further where UNIQ_KEY has the only one


@given(st.dictionaries(st.sampled_from([*sorted(BROKER_ONLY | RETRY_ONLY), "KEYS", "REAL_TIME", "a_b"]), st.just("v")))
def test_the_others_stay_as_they_are(given_: dict[str, str]) -> None:
    raw = encode_properties(given_)
    kept = {name: value for name, value in given_.items() if name not in BROKER_ONLY | RETRY_ONLY}
    assert decode_properties(sent_properties(raw)) == kept
    assert decode_properties(sent_properties(raw, to_retry_topic=True)) == {
        name: value for name, value in given_.items() if name not in BROKER_ONLY
    }
    if kept == given_:
        assert sent_properties(raw) is raw


@pytest.mark.parametrize("make", [payload_of, binary_payload])
@pytest.mark.parametrize("name", [*STRIPPED, *sorted(RETRY_ONLY)])
def test_a_send_and_a_batch_lose_it_on_both_paths(make: Any, name: str) -> None:
    text = f"UNIQ_KEY\x01ABC123\x02{name}\x015\x02"
    took, _, plain = send_both_ways(make(ordinary(i=text), b"body"))
    assert not took
    assert plain[1][1][0].properties == OWN
    entry = encode_batch_entry(b"one", f"{name}\x015\x02".encode())
    for body in (entry, entry * 20, entry + encode_batch_entry(b"other", b"a\x01b\x02")):
        took, _, plain = send_both_ways(make(ordinary(m="true", i="UNIQ_KEY\x01ABC123\x02"), body, code=320))
        assert not took
        assert plain[1][1][0].properties == OWN


def test_a_recall_is_refused_at_every_door() -> None:
    world = with_topic()
    recall = f"UNIQ_KEY\x01A\x02TIMER_DELAY_MS\x015000\x02{RECALL}\x01T+K\x02"
    for properties in (recall, f"{RECALL}\x01T+K\x02", f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02{RECALL}\x01T+K\x02"):
        code, remark = refusal(world, properties=properties)
        assert code == ResponseCode.MESSAGE_ILLEGAL and "RECALL_MESSAGE" in remark
    entry = encode_batch_entry(b"one", f"{RECALL}\x01T+K\x02".encode())
    assert refusal(world, entry, Code.SEND_BATCH_MESSAGE, batch="true")[0] == ResponseCode.MESSAGE_ILLEGAL
    assert world.messages(TIMER_TOPIC) == []


def test_a_half_message_loses_them() -> None:
    producer = TransactionProducer(world_with_topic())
    half = producer.half(REAL_TOPIC="other", REAL_QID="7", TRAN_PREPARED_QUEUE_OFFSET="3", TRANSACTION_CHECK_TIMES="9")
    producer.commit(half)
    (message,) = producer.world.messages("T", 1)
    assert message.properties["REAL_TOPIC"] == "T" and message.properties["REAL_QID"] == "1"
    assert "TRAN_PREPARED_QUEUE_OFFSET" not in message.properties


def test_a_dead_letter_names_the_topic_that_its_message_was_in() -> None:
    world = with_topic()
    world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="g", retry_max_times=0)])
    # A record that another broker stored still has what its producer wrote.
    placed = world.put("T", RETRY_TOPIC="payroll", ORIGIN_MESSAGE_ID="forged", DLQ_ORIGIN_TOPIC="payroll")
    header = ConsumerSendMsgBackHeader(offset=placed.physical_offset, group="g", delay_level=0)
    assert world.parts.messages.retries.send_back(header, 479)
    world.parts.messages.writer.commit()
    (dead,) = world.messages("%DLQ%g")
    assert dead.properties["DLQ_ORIGIN_TOPIC"] == dead.properties["RETRY_TOPIC"] == "T"
    assert dead.properties["DLQ_ORIGIN_MESSAGE_ID"] != "forged"


def test_a_copy_for_a_retry_topic_names_a_topic_that_its_sender_may_read() -> None:
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name=name) for name in ("T", "payroll", "%RETRY%G")])
    world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="G")])
    consumer = callers(world, Gatekeeper(guard()))["consumer"]
    for origin, is_taken in (("T", True), ("payroll", False), ("orders", True)):
        properties = f"UNIQ_KEY\x01A\x02RETRY_TOPIC\x01{origin}\x02ORIGIN_MESSAGE_ID\x01B\x02"
        header = fields(topic="%RETRY%G", queue_id=0, properties=properties, reconsume_times=1)
        reply = consumer.ask(Code.SEND_MESSAGE_V2, b"copy", **header)
        assert (reply is None) is is_taken
        if reply is not None:
            assert reply.code == ResponseCode.NO_PERMISSION and "payroll" in (reply.remark or "")
    world.parts.messages.writer.commit()
    assert [message.properties["RETRY_TOPIC"] for message in world.messages("%RETRY%G")] == ["T", "orders"]


def test_an_open_broker_takes_such_a_copy_from_any_client() -> None:
    world = with_topic()
    world.parts.metadata.groups.ensure("g")
    send(world, topic="%RETRY%g", queue_id=0, properties="UNIQ_KEY\x01A\x02RETRY_TOPIC\x01T\x02REAL_TOPIC\x01x\x02")
    (message,) = world.messages("%RETRY%g")
    assert message.properties["RETRY_TOPIC"] == "T" and "REAL_TOPIC" not in message.properties

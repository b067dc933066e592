"""pymq message trace: a message's way as clients traced it, retries included, and why there is nothing to show."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.client import ConsumeResult, Message, StoredMessage, TransactionState
from pymq.client.sync import Producer, PushConsumer, TransactionProducer
from pymq.errors import EXIT_NOT_FOUND, EXIT_OK
from pymq.model.names import TRACE_TOPIC
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq
from tests.cli.offset.test_command import reached


@pytest.fixture
def traced(pymq: Pymq, server: StandaloneProcess) -> Any:
    """Send a message that its consumer fails once; return the send's result."""
    pymq("topic", "create", "traced", "--wq", "1", "--rq", "1")
    seen: list[StoredMessage] = []

    def handle(messages: list[StoredMessage]) -> ConsumeResult:
        seen.extend(messages)
        return ConsumeResult.SUCCESS if messages[0].reconsume_times else ConsumeResult.RECONSUME_LATER

    consumer = PushConsumer(
        "tracers", namesrv=server.namesrv, on_message=handle, consume_from="first", delay_level=1, trace=True
    )
    consumer.subscribe("traced")
    with Producer("makers", namesrv=server.namesrv, trace=True) as producer, consumer:
        result = producer.send(Message("traced", b"x", keys="order-1"), timeout_s=30)
        reached(lambda: any(one.message_id == result.message_id and one.reconsume_times for one in seen))
    return result


def test_the_whole_way_of_a_message(pymq: Pymq, traced: Any) -> None:
    outcome = pymq("message", "trace", traced.message_id, "--json")
    assert outcome.code == EXIT_OK and outcome.err == ""
    record = outcome.json()
    assert (record["topic"], record["groups"], record["why_no_trace"]) == ("traced", ["tracers"], None)
    events = record["events"]
    assert sorted(event["event"] for event in events) == [
        "consumed", "consumed", "delivered", "delivered", "produced", "stored",
    ]  # fmt: skip
    assert [event["event"] for event in events][-2:] == ["delivered", "consumed"]
    by_name = {name: [event for event in events if event["event"] == name] for name in ("delivered", "consumed")}
    assert [event["retry"] for event in by_name["delivered"]] == [0, 1]
    assert [event["ok"] for event in by_name["consumed"]] == [False, True]
    assert {event["client"] for event in by_name["consumed"]} == {"127.0.0.1"}
    (produced,) = [event for event in events if event["event"] == "produced"]
    assert produced["group"] == "makers" and "to traced" in produced["detail"]
    text = pymq("message", "trace", traced.message_id).out
    assert "retry 1" in text and "to be retried" in text and "traced broker-a/0@" in text
    # The broker's id of the message leads to the same traces.
    assert pymq("message", "trace", traced.offset_message_id, "--json").json() == record


def test_traces_that_cannot_be_decoded_are_named(pymq: Pymq, traced: Any) -> None:
    for body in ("Recall\x017\x02", "Later\x01x\x02"):
        assert pymq("send", TRACE_TOPIC, body, "--key", traced.message_id).code == EXIT_OK
    outcome = pymq("message", "trace", traced.message_id)
    assert outcome.code == EXIT_OK and "consumed" in outcome.out
    assert "only 2 fields" in outcome.err and "unknown kind 'Later'" in outcome.err


def test_a_stored_message_without_traces_says_why(pymq: Pymq) -> None:
    pymq("topic", "create", "quiet")
    sent = pymq("send", "quiet", "x", "--json").json()
    outcome = pymq("message", "trace", sent["message_id"], "--topic", "quiet")
    assert outcome.code == EXIT_OK and "stored" in outcome.out and "trace=True" in outcome.err
    elsewhere = pymq("message", "trace", sent["message_id"], "--topic", "quiet", "--trace-topic", "no_traces")
    assert "no_traces does not exist" in elsewhere.err and "traceTopicEnable" in elsewhere.err


def test_nothing_at_all_is_not_found(pymq: Pymq) -> None:
    outcome = pymq("message", "trace", "AB" * 16)
    assert outcome.code == EXIT_NOT_FOUND and "--topic" in outcome.err and "trace=True" in outcome.err


class _Commits:
    def execute(self, message: Message, arg: object) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: StoredMessage) -> TransactionState:
        return TransactionState.COMMIT


def test_the_end_of_a_transaction_and_a_recall_are_shown(pymq: Pymq, server: StandaloneProcess) -> None:
    pymq("topic", "create", "decided", "--wq", "1", "--rq", "1")
    with TransactionProducer("deciders", listener=_Commits(), namesrv=server.namesrv, trace=True) as producer:
        half = producer.send_in_transaction(Message("decided", b"x"), timeout_s=30)
        timer = producer.send(Message("decided", b"y", delay_ms=600_000), timeout_s=30)
        producer.recall("decided", timer.recall_handle)
    events = {event["event"]: event for event in pymq("message", "trace", half.message_id, "--json").json()["events"]}
    assert events["transaction"]["group"] == "deciders" and "COMMIT_MESSAGE" in events["transaction"]["detail"]
    assert "half message" in events["produced"]["detail"] and "decided broker-a/0@0" in events["stored"]["detail"]
    [recalled] = [
        event
        for event in pymq("message", "trace", timer.message_id, "--json").json()["events"]
        if event["event"] == "recalled"
    ]
    assert recalled["ok"] and recalled["group"] == "deciders"

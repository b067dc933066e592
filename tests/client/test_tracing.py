"""Tracer: what it writes and where, its bounds, and that its failures stay its own."""

from __future__ import annotations

import asyncio

import pytest

from pymq.client import ConsumeResult, Message, Producer
from pymq.client.consume_counters import ConsumeCounters
from pymq.client.handler import MessageHandler
from pymq.client.instance import ClientInstance, ClusterAccess
from pymq.client.tracing import BODY_SIZE_MAX_BYTES, KEYS_SIZE_MAX_BYTES, WAITING_COUNT_MAX, Tracer
from pymq.clock import SystemClock
from pymq.errors import RefusedError
from pymq.model.names import TRACE_TOPIC
from pymq.model.properties import decode_properties
from pymq.model.record import StoredMessage
from pymq.model.timers import RecallHandle
from pymq.model.trace import EXCEPTION, FAILED, SUCCESS, TraceKind, TraceRecord, decode_traces
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.header import decode_header
from pymq.wire.headers.send import SendMessageV2Header
from pymq.wire.reply import Reply
from tests.client.fake_broker import FakeServer
from tests.client.messages import message
from tests.client.test_producer import SEND, run, stored


def traced(broker: FakeServer) -> tuple[list[TraceRecord], list[SendMessageV2Header]]:
    """Return the records that reached the broker, and the headers of the messages they came in."""
    sends = [(decode_header(SendMessageV2Header, one.ext), one.body) for one in broker.requests[SEND]]
    written = [(header, body) for header, body in sends if header.topic == TRACE_TOPIC]
    records = [record for _, body in written for record in decode_traces(body.decode())[0]]
    return records, [header for header, _ in written]


def test_a_producer_traces_its_sends() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        result = await producer.send(Message("T", b"hello", tags="A", keys="k1 k2"))
        batch = await producer.send_batch([Message("T", b"1"), Message("T", b"2")])
        await producer.send(Message("T", b"later", delay_level=3))
        await producer.stop()
        records, (header,) = traced(brokers[0])
        first = records[0]
        assert (first.kind, first.message_id, first.offset_message_id) == (
            TraceKind.PUBLISHED,
            result.message_id,
            result.offset_message_id,
        )
        assert (first.group, first.topic, first.tags, first.keys) == ("PG", "T", "A", "k1 k2")
        assert (first.store_host, first.body_length, first.success) == (brokers[0].address, 5, True)
        assert [one.message_id for one in records[1:3]] == batch.message_id.split(",")
        assert [one.message_type for one in records] == [0, 0, 0, 3]
        assert header.producer_group == "_INNER_TRACE_PRODUCER-PG-PRODUCE-0"
        keys = decode_properties(header.properties.encode())["KEYS"].split()
        assert keys[:3] == [result.message_id, "k1", "k2"] and len(keys) == 6

    run(scenario, trace=True)


def test_a_producer_traces_its_recalls_also_those_that_fail() -> None:
    handle = RecallHandle("T", "broker-0", 1_700_000_000_001, "KEY").encode()

    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        brokers[0].on(RequestCode.RECALL_MESSAGE, lambda command: Reply(ext={"msgId": "KEY"}))
        assert await producer.recall("T", handle) == "KEY"
        brokers[0].refuse(RequestCode.RECALL_MESSAGE, ResponseCode.ILLEGAL_OPERATION, "due")
        with pytest.raises(RefusedError):
            await producer.recall("T", handle)
        await producer.stop()
        records, (header,) = traced(brokers[0])
        assert [(one.kind, one.topic, one.message_id, one.group) for one in records] == 2 * [
            (TraceKind.RECALLED, "T", "KEY", "PG")
        ]
        assert [one.success for one in records] == [True, False] and records[0].time_ms > 0
        assert decode_properties(header.properties.encode())["KEYS"].split() == ["KEY"]

    run(scenario, trace=True)


def test_without_trace_nothing_is_written() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        await producer.send(Message("T", b"hello"))
        await producer.stop()
        assert traced(brokers[0]) == ([], [])

    run(scenario)


def test_a_failed_send_is_traced_as_one_and_failing_traces_fail_no_send() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        def answer(command: Command) -> Reply:
            topic = decode_header(SendMessageV2Header, command.ext).topic
            if topic == TRACE_TOPIC and brokers[0].count(SEND) > 2:
                return Reply(ResponseCode.NO_PERMISSION, "no traces here")
            if topic == "T":
                return Reply(ResponseCode.MESSAGE_ILLEGAL, "no")
            return stored(command)

        brokers[0].on(SEND, answer)
        tracer = producer._tracer
        assert tracer is not None
        with pytest.raises(RefusedError):
            await producer.send(Message("T", b"x"))
        await tracer.stop()
        ((record,), _) = traced(brokers[0])
        assert not record.success and record.offset_message_id == "" and tracer.dropped_count == 0
        with pytest.raises(RefusedError):
            await producer.send(Message("T", b"x"))
        await tracer.stop()
        assert tracer.dropped_count == 1

    run(scenario, trace=True)


def tracer_of() -> Tracer:
    return Tracer(ClientInstance(ClusterAccess("127.0.0.1:1"), clock=SystemClock()), "CG", "CONSUME")


def handled(tracer: Tracer, verdict: ConsumeResult | Exception, *messages: StoredMessage) -> list[TraceRecord]:
    async def handle(_: list[StoredMessage]) -> ConsumeResult:
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    handler = MessageHandler(handle, ConsumeCounters(), SystemClock(), 1, tracer)
    asyncio.run(_call(handler, list(messages)))
    return list(tracer._waiting)


async def _call(handler: MessageHandler, messages: list[StoredMessage]) -> None:
    await handler.call(messages, SystemClock().monotonic_ms())


@pytest.mark.parametrize(
    ("verdict", "code", "success"),
    [
        (ConsumeResult.SUCCESS, SUCCESS, True),
        (ConsumeResult.RECONSUME_LATER, FAILED, False),
        (ValueError("on purpose"), EXCEPTION, False),
    ],
)
def test_a_consumer_traces_each_message_of_a_batch(
    verdict: ConsumeResult | Exception, code: int, success: bool
) -> None:
    batch = [message(MSG_REGION="R", KEYS="k"), message(offset=1, reconsume_times=2, MSG_REGION="R")]
    records = handled(tracer_of(), verdict, *batch)
    assert [one.kind for one in records] == [TraceKind.DELIVERED] * 2 + [TraceKind.CONSUMED] * 2
    assert [one.message_id for one in records] == [one.message_id for one in batch] * 2
    assert [one.retry_times for one in records[:2]] == [0, 2]
    assert {one.request_id for one in records} == {records[0].request_id} and {one.group for one in records} == {"CG"}
    assert {(one.context_code, one.success) for one in records[2:]} == {(code, success)}


def test_messages_without_a_region_or_that_say_no_are_not_traced() -> None:
    assert handled(tracer_of(), ConsumeResult.SUCCESS, message(), message(MSG_REGION="R", TRACE_ON="false")) == []


def test_waiting_records_are_bounded() -> None:
    tracer = tracer_of()
    for number in range(WAITING_COUNT_MAX + 5):
        tracer._note(TraceRecord(TraceKind.RECALLED, str(number)))
    assert len(tracer._waiting) == WAITING_COUNT_MAX and tracer.dropped_count == 5


def test_a_trace_message_keeps_below_the_limits_of_rocketmq() -> None:
    tracer = tracer_of()
    for size in (10, 100_000, 50_000):
        tracer._note(TraceRecord(TraceKind.PUBLISHED, "M", topic="T" * size))
    for _ in range(3):
        tracer._note(TraceRecord(TraceKind.PUBLISHED, "M", keys="k" * (KEYS_SIZE_MAX_BYTES - 100)))
    for number in range(50):
        tracer._note(TraceRecord(TraceKind.RECALLED, str(number)))
    counts = []
    while tracer._waiting:
        records, body = tracer._next_message()
        counts.append(len(records))
        assert len(body) <= BODY_SIZE_MAX_BYTES
    # The same long key counts once.
    assert counts == [2, 20, 20, 14] and sum(counts) == 56

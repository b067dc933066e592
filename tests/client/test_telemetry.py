"""Spans of sends and handlers as OpenTelemetry's conventions say, and the trace context that messages carry."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pymq.client import ConsumeResult, Message, Producer
from pymq.client.consume_counters import ConsumeCounters
from pymq.client.handler import MessageHandler
from pymq.client.telemetry import Telemetry
from pymq.clock import SystemClock
from pymq.errors import RefusedError, UsageError
from pymq.model.properties import decode_properties
from pymq.model.record import StoredMessage, decode_batch
from pymq.packages import pip_install
from pymq.wire.codes import ResponseCode
from tests.client.fake_broker import FakeServer
from tests.client.messages import message
from tests.client.test_producer import BATCH, SEND, run, sent


def test_without_the_library_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(UsageError, match=re.escape(pip_install("otel"))):
        Telemetry()


class Recorded:
    """A telemetry whose ended spans stay in memory."""

    def __init__(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.telemetry = Telemetry(provider)
        self.tracer = provider.get_tracer("test")

    def spans(self) -> list[Any]:
        return list(self._exporter.get_finished_spans())


@pytest.fixture
def recorded() -> Recorded:
    pytest.importorskip("opentelemetry.sdk", reason="NOT TESTED: pip install opentelemetry-sdk (extra: test)")
    return Recorded()


def traceparent(span: Any) -> str:
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


def test_a_send_is_a_producer_span_whose_context_travels_in_the_properties(recorded: Recorded) -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        with recorded.tracer.start_as_current_span("order") as order:
            asked = Message("T", b"hello", tags="A", keys="k1 k2", properties={"color": "red"})
            result = await producer.send(asked)
        header, _ = sent(brokers[0])
        properties = decode_properties(header.properties.encode())
        span = recorded.spans()[0]
        assert (span.name, span.kind.name, span.parent.span_id) == ("send T", "PRODUCER", order.context.span_id)
        assert properties["traceparent"] == traceparent(span) and properties["color"] == "red"
        assert asked.properties == {"color": "red"}, "the application's message stays as it is"
        assert dict(span.attributes) == {
            "messaging.system": "rocketmq",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": "T",
            "messaging.destination.partition.id": str(result.queue.queue_id),
            "messaging.client.id": producer.client_id,
            "messaging.message.id": result.message_id,
            "messaging.message.body.size": 5,
            "messaging.rocketmq.message.tag": "A",
            "messaging.rocketmq.message.keys": ("k1", "k2"),
            "messaging.rocketmq.message.type": "normal",
        }

    run(scenario, telemetry=recorded.telemetry)


def test_every_way_to_send_makes_one_span(recorded: Recorded) -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        await producer.send(Message("T", b"1", delay_level=3))
        await producer.send(Message("T", b"2"), ordering_key="order-1")
        await (await producer.enqueue(Message("T", b"3")))
        await producer.send_oneway(Message("T", b"4"))
        await asyncio.sleep(0)
        kinds = [one.attributes["messaging.rocketmq.message.type"] for one in recorded.spans()]
        assert kinds == ["delay", "fifo", "normal", "normal"]
        assert recorded.spans()[1].attributes["messaging.rocketmq.message.group"] == "order-1"

    run(scenario, telemetry=recorded.telemetry)


def test_a_batch_is_a_client_span_linked_to_a_span_of_each_message(recorded: Recorded) -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        await producer.send_batch([Message("T", b"1"), Message("T", b"2")])
        first, second, batch = recorded.spans()
        assert [one.name for one in (first, second, batch)] == ["create T", "create T", "send T"]
        assert batch.kind.name == "CLIENT" and batch.attributes["messaging.batch.message_count"] == 2
        assert [one.context.span_id for one in batch.links] == [first.context.span_id, second.context.span_id]
        _, body = sent(brokers[0], code=BATCH)
        carried = [decode_properties(entry[2])["traceparent"] for entry in decode_batch(body)]
        assert carried == [traceparent(first), traceparent(second)]

    run(scenario, telemetry=recorded.telemetry)


def test_a_send_that_fails_marks_its_span(recorded: Recorded) -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        brokers[0].refuse(SEND, ResponseCode.MESSAGE_ILLEGAL, "too large")
        with pytest.raises(RefusedError):
            await producer.send(Message("T", b"1"))
        with pytest.raises(UsageError):
            await producer.send(Message("T", b""))
        assert [one.attributes["error.type"] for one in recorded.spans()] == ["RefusedError", "UsageError"]
        assert {one.status.status_code.name for one in recorded.spans()} == {"ERROR"}

    run(scenario, telemetry=recorded.telemetry)


def handle(recorded: Recorded, on_message: Callable[[list[StoredMessage]], Any], *messages: StoredMessage) -> None:
    async def call() -> None:
        handler = MessageHandler(
            on_message,
            ConsumeCounters(),
            SystemClock(),
            1,
            wrap=lambda function, is_coroutine: recorded.telemetry.handler(
                function, "CG", "client", is_coroutine=is_coroutine
            ),
        )
        try:
            await handler.call(list(messages), SystemClock().monotonic_ms())
        finally:
            handler.close()

    asyncio.run(call())


ORIGIN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("is_coroutine", [True, False])
def test_a_handler_runs_in_a_consumer_span_of_the_senders_trace(recorded: Recorded, is_coroutine: bool) -> None:
    inner: list[Any] = []

    def work(_: list[StoredMessage]) -> None:
        with recorded.tracer.start_as_current_span("database") as span:
            inner.append(span)

    async def work_later(messages: list[StoredMessage]) -> None:
        work(messages)

    one = message(b"hello", offset=4, queue_id=2, traceparent=ORIGIN, TAGS="A")
    handle(recorded, work_later if is_coroutine else work, one)
    database, process = recorded.spans()
    assert (process.name, process.kind.name) == ("process T", "CONSUMER")
    assert f"{process.parent.trace_id:032x}-{process.parent.span_id:016x}" == ORIGIN[3:-3]
    assert [f"{link.context.span_id:016x}" for link in process.links] == ["b7ad6b7169203331"]
    assert database.parent.span_id == process.context.span_id, "the span is current in the handler"
    assert process.attributes["messaging.consumer.group.name"] == "CG"
    assert process.attributes["messaging.message.id"] == "U2-4"
    assert process.attributes["messaging.destination.partition.id"] == "2"


def test_several_messages_are_linked_and_not_a_child_of_one(recorded: Recorded) -> None:
    handle(recorded, lambda messages: None, message(traceparent=ORIGIN), message(offset=1), message(traceparent="bad"))
    [process] = recorded.spans()
    assert process.parent is None and len(process.links) == 1
    assert process.attributes["messaging.batch.message_count"] == 3


@pytest.mark.parametrize("raises", [True, False])
def test_a_handler_that_fails_marks_its_span(recorded: Recorded, raises: bool) -> None:
    def fail(_: list[StoredMessage]) -> ConsumeResult:
        if raises:
            raise ValueError("on purpose")
        return ConsumeResult.RECONSUME_LATER

    handle(recorded, fail, message())
    [process] = recorded.spans()
    assert process.status.status_code.name == "ERROR"
    assert process.attributes["error.type"] == ("ValueError" if raises else "RECONSUME_LATER")

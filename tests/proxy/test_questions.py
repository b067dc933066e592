"""Operators ask gRPC consumers through broker and proxy: stacks of their threads, and one message by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("grpc")

from pymq.client import Admin
from pymq.clock import ManualClock
from pymq.errors import RefusedError
from pymq.proxy import questions
from pymq.proxy.calls import Call
from pymq.proxy.clients import Stream
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.names import ClientType, Code
from pymq.proxy.questions import Questions
from pymq.proxy.server import ProxyServer
from pymq.proxy.sessions import Session, Sessions
from pymq.testing.broker import TestBroker
from pymq.wire.bodies_admin import ConsumerRunningInfo, decode_admin_body
from pymq.wire.codes import RequestCode
from pymq.wire.command import request
from pymq.wire.headers.admin import ConsumerRunningInfoHeader
from tests.proxy.harness import RawClient, create_topic, until, with_client

TOPIC, GROUP = "GrpcQuestions", "grpc-questions"


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        create_topic(broker, TOPIC, queue_count=1)
        yield broker


async def joined(client: RawClient, admin: Admin, broker: TestBroker) -> Any:
    """Let the client be a push consumer that the broker knows; return its Telemetry stream."""
    settings = m.Settings(client_type=ClientType.PUSH_CONSUMER)
    settings.subscription.group.name = GROUP
    settings.subscription.subscriptions.add().topic.name = TOPIC
    stream = await client.settle(settings)

    async def is_known() -> bool:
        try:
            return bool((await admin.groups.running_info(broker.address, GROUP, "client")).subscription_set)
        except RefusedError:
            return False

    await until(is_known)
    return stream


def test_an_operator_sees_the_stacks_of_a_consumers_threads(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        async with Admin(broker.namesrv) as admin:
            stream = await joined(client, admin, broker)

            async def answer() -> None:
                question = (await stream.read()).print_thread_stack_trace_command
                trace = m.TelemetryCommand()
                trace.thread_stack_trace.nonce = question.nonce
                trace.thread_stack_trace.thread_stack_trace = "main: waits"
                await stream.write(trace)

            answering = asyncio.create_task(answer())
            info = await admin.groups.running_info(broker.address, GROUP, "client", with_stacks=True)
            await answering
            assert info.jstack == "main: waits"
            assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
            assert TOPIC in {each.topic for each in info.subscription_set}
            stream.cancel()

    with_client(broker, work)


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (Code.OK, "CR_SUCCESS"),
        (Code.FAILED_TO_CONSUME_MESSAGE, "CR_LATER"),
        (Code.MESSAGE_CORRUPTED, "CR_RETURN_NULL"),
        (Code.INTERNAL_SERVER_ERROR, "CR_THROW_EXCEPTION"),
    ],
)
def test_an_operator_has_a_consumer_take_one_message(broker: TestBroker, code: int, result: str) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        async with Admin(broker.namesrv) as admin:
            stream = await joined(client, admin, broker)
            sent = await client.send(TOPIC, b"by hand", tag="t")
            (found,) = await admin.messages.by_unique_key(TOPIC, sent.entries[0].message_id)

            async def answer() -> None:
                question = (await stream.read()).verify_message_command
                assert (question.message.body, question.message.topic.name) == (b"by hand", TOPIC)
                verified = m.TelemetryCommand(status=m.Status(code=code, message="said so"))
                verified.verify_message_result.nonce = question.nonce
                await stream.write(verified)

            answering = asyncio.create_task(answer())
            taken = await admin.groups.consume_directly(broker.address, GROUP, "client", TOPIC, found.offset_message_id)
            await answering
            assert (taken.consume_result, taken.remark) == (result, "said so")
            stream.cancel()

    with_client(broker, work)


def test_a_consumer_that_reads_or_answers_nothing_is_named(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "ANSWER_TIMEOUT_S", 0.01)

    async def work(client: RawClient, _: ProxyServer) -> None:
        async with Admin(broker.namesrv) as admin:
            stream = await joined(client, admin, broker)
            with pytest.raises(RefusedError, match="gave no answer within"):
                await admin.groups.running_info(broker.address, GROUP, "client", with_stacks=True)
            stream.cancel()

            async def is_ended() -> bool:
                try:
                    await admin.groups.running_info(broker.address, GROUP, "client", with_stacks=True)
                except RefusedError as error:
                    return "reads no commands" in str(error)
                return False

            await until(is_ended)

    with_client(broker, work)


def test_only_the_member_itself_answers() -> None:
    async def work() -> None:
        sessions, stream = Sessions(), Stream()
        settings = m.Settings()
        settings.subscription.group.name = GROUP
        sessions.put(Session("client", settings, "", "", 0, user="owner", stream=stream))
        asked = Questions(sessions, ManualClock())
        header = ConsumerRunningInfoHeader(consumer_group=GROUP, client_id="client", jstack_enable=True)
        asking = asyncio.create_task(asked.ask(request(RequestCode.GET_CONSUMER_RUNNING_INFO, header), ""))
        nonce = (await stream.next()).print_thread_stack_trace_command.nonce

        def answer(client_id: str, user: str, text: str) -> None:
            trace = m.TelemetryCommand()
            trace.thread_stack_trace.nonce = nonce
            trace.thread_stack_trace.thread_stack_trace = text
            asked.answered(Call({"x-mq-client-id": client_id}, user=user), trace)

        answer("other", "owner", "of another client")
        answer("client", "other", "of another user")
        asked.answered(Call({"x-mq-client-id": "client"}, user="owner"), m.TelemetryCommand())
        answer("client", "owner", "its own")
        answer("client", "owner", "too late")
        assert decode_admin_body(ConsumerRunningInfo, (await asking).body).jstack == "its own"

    asyncio.run(work())

"""What becomes of received messages: again later, dead letters, renewed receipts, forged handles."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("grpc")

import grpc

from pymq.client import Admin
from pymq.proxy import sessions, waits
from pymq.proxy.checks import INVISIBLE_MS_MAX, INVISIBLE_MS_MIN
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.names import ClientType, Code
from pymq.proxy.receipts import AUTO_RENEW_INVISIBLE_MS
from pymq.proxy.receiving import ACK_COUNT_MAX
from pymq.proxy.server import ProxyServer
from pymq.proxy.settings import duration_of
from pymq.testing.broker import TestBroker
from tests.proxy.harness import RawClient, create_group, create_topic, until, until_routed, with_client

TOPIC, ONE_TRY = "GrpcSettling", "GrpcSettlingOneTry"


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        create_topic(broker, TOPIC, queue_count=1)
        create_group(broker, ONE_TRY, retry_max_times=0)
        yield broker


async def advance(broker: TestBroker, seconds: float) -> None:
    await asyncio.to_thread(broker.clock.advance, seconds=seconds)


def test_a_message_comes_again_with_a_higher_attempt_and_then_to_the_dead_letters(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        await client.send(TOPIC, b"twice", tag="t")
        (found,) = await client.receive(TOPIC, "GrpcSettlingA")
        changed = await client.change("GrpcSettlingA", found, 1000)
        assert changed.status.code == Code.OK
        assert changed.receipt_handle != found.system_properties.receipt_handle
        await advance(broker, 10)
        (again,) = await client.receive(TOPIC, "GrpcSettlingA")
        assert (again.topic.name, again.system_properties.delivery_attempt) == (TOPIC, 2)
        request = m.ForwardMessageToDeadLetterQueueRequest(
            group=m.Resource(name="GrpcSettlingA"),
            topic=again.topic,
            receipt_handle=again.system_properties.receipt_handle,
            message_id=again.system_properties.message_id,
        )
        assert (await client.call("ForwardMessageToDeadLetterQueue", request)).status.code == Code.OK
        await until_routed(client, "%DLQ%GrpcSettlingA")
        (dead,) = await client.receive("%DLQ%GrpcSettlingA", "GrpcSettlingDead")
        assert (dead.body, dead.system_properties.tag) == (b"twice", "t")
        assert dead.system_properties.message_id == found.system_properties.message_id

    with_client(broker, work)


def test_a_message_beyond_its_attempts_goes_to_the_dead_letters_unseen(broker: TestBroker) -> None:
    create_topic(broker, "GrpcSettlingOnce")

    async def work(client: RawClient, _: ProxyServer) -> None:
        await client.send("GrpcSettlingOnce", b"once")
        (found,) = await client.receive("GrpcSettlingOnce", ONE_TRY)
        await client.change(ONE_TRY, found, 1000)
        await advance(broker, 10)
        await client.send("GrpcSettlingOnce", b"next")
        assert [each.body for each in await client.receive("GrpcSettlingOnce", ONE_TRY)] == [b"next"]
        await until_routed(client, "%DLQ%" + ONE_TRY)
        (dead,) = await client.receive("%DLQ%" + ONE_TRY, "GrpcSettlingDead")
        assert dead.body == b"once"

    with_client(broker, work)


def test_handles_that_are_forged_or_over_have_their_codes(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        await client.send(TOPIC, b"over")
        found = (await client.receive(TOPIC, "GrpcSettlingB"))[-1]
        assert (await client.change("GrpcSettlingB", found, 13 * 3600_000)).status.code == Code.ILLEGAL_INVISIBLE_TIME
        await advance(broker, 11)
        assert await client.ack("GrpcSettlingB", found) == Code.INVALID_RECEIPT_HANDLE
        assert (await client.change("GrpcSettlingB", found, 1000)).status.code == Code.INVALID_RECEIPT_HANDLE
        found.system_properties.receipt_handle = "forged"
        assert await client.ack("GrpcSettlingB", found) == Code.INTERNAL_SERVER_ERROR
        request = m.AckMessageRequest(group=m.Resource(name="GrpcSettlingB"), topic=found.topic)
        request.entries.add(receipt_handle="forged")
        request.entries.add(receipt_handle=f"0 {broker.clock.now_ms()} 10000 0 0 broker-a 0 0 0")
        answer = await client.call("AckMessage", request)
        assert answer.status.code == Code.MULTIPLE_RESULTS
        assert [entry.status.code for entry in answer.entries] == [Code.INTERNAL_SERVER_ERROR, Code.OK]

    with_client(broker, work)


@pytest.mark.parametrize("is_orderly", [False, True])
def test_a_handle_within_its_time_gets_ok_though_it_changes_nothing(broker: TestBroker, is_orderly: bool) -> None:
    """The message is acknowledged, has a newer handle, or is another group's: it comes again when it would have."""
    topic, group, field = "GrpcSettlingVain", "GrpcSettlingH", {}
    if is_orderly:
        topic, group, field = topic + "Fifo", group + "Fifo", {"message_group": "g"}
    create_topic(broker, topic, "FIFO" if is_orderly else "NORMAL", queue_count=1)
    create_group(broker, group, consume_message_orderly=is_orderly)

    async def work(client: RawClient, _: ProxyServer) -> None:
        for body in (b"acknowledged", b"changed", b"another group's"):
            await client.send(topic, body, **field)
        acknowledged, changed, others = await client.receive(topic, group)
        assert await client.ack(group, acknowledged) == Code.OK
        in_vain = [(acknowledged, group), (others, "GrpcSettlingI")]
        if not is_orderly:  # there the first handle stays valid
            assert (await client.change(group, changed, 10_000)).status.code == Code.OK
            in_vain.append((changed, group))
        for message, by in in_vain:
            answer = await client.change(by, message, 3600_000)
            assert answer.status.code == Code.OK
            message.system_properties.receipt_handle = answer.receipt_handle
        await advance(broker, 11)
        again = await client.receive(topic, group)
        assert {each.body for each in again} == {b"changed", b"another group's"}
        for message, by in in_vain:
            assert await client.ack(by, message) == Code.OK, "the answer's handle lasts as long as was asked for"

    with_client(broker, work)


def test_the_receipts_of_a_slow_listener_are_renewed_and_given_back_when_it_leaves(broker: TestBroker) -> None:
    async def work(client: RawClient, server: ProxyServer) -> None:
        settings = m.Settings(client_type=ClientType.PUSH_CONSUMER)
        settings.subscription.group.name = "GrpcSettlingC"
        stream = await client.settle(settings)
        await client.send(TOPIC, b"slow")
        found = (await client.receive(TOPIC, "GrpcSettlingC", auto_renew=True))[-1]
        for seconds in (AUTO_RENEW_INVISIBLE_MS / 1000 - 5, 50):
            await advance(broker, seconds)
            await server.service.tick()
        await advance(broker, 30)
        assert await client.ack("GrpcSettlingC", found) == Code.OK, "the handle that was given out stays valid"
        await client.send(TOPIC, b"left")
        await client.receive(TOPIC, "GrpcSettlingC", auto_renew=True)
        await client.call("NotifyClientTermination", m.NotifyClientTerminationRequest())
        assert len(server.service.held) == 0
        await server.service.receiving.drain()
        await advance(broker, 10)
        await client.settle(settings)
        assert b"left" in [each.body for each in await client.receive(TOPIC, "GrpcSettlingC")]
        stream.cancel()

    with_client(broker, work)


def test_a_receive_that_its_client_cancels_gives_back_what_comes(broker: TestBroker) -> None:
    create_topic(broker, "GrpcSettlingCancelled")

    async def work(client: RawClient, server: ProxyServer) -> None:
        request = client.receiving("GrpcSettlingCancelled", "GrpcSettlingD")
        await client.introduce(request.group.name)
        call = client.receive_call(request)
        reading = asyncio.ensure_future(call.read())
        waiting = server.service.waits

        async def is_parked() -> bool:
            return waiting.count > 0

        async def is_free() -> bool:
            return waiting.count == 0

        await until(is_parked)
        call.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await until(is_free)
        await client.send("GrpcSettlingCancelled", b"kept")
        await server.service.receiving.drain()
        await advance(broker, 10)
        assert [each.body for each in await client.receive("GrpcSettlingCancelled", "GrpcSettlingD")] == [b"kept"]

    with_client(broker, work)


def test_a_stop_ends_parked_receives_and_streams_with_an_answer(broker: TestBroker) -> None:
    create_topic(broker, "GrpcSettlingStop")

    async def work(client: RawClient, server: ProxyServer) -> None:
        settings = m.Settings(client_type=ClientType.SIMPLE_CONSUMER)
        settings.subscription.group.name = "GrpcSettlingE"
        stream = await client.settle(settings)
        await client.introduce("GrpcSettlingE")
        call = client.receive_call(client.receiving("GrpcSettlingStop", "GrpcSettlingE"))
        first = asyncio.ensure_future(call.read())

        async def is_parked() -> bool:
            return server.service.waits.count > 0

        await until(is_parked)
        await server.stop()
        assert (await first).status.code == Code.MESSAGE_NOT_FOUND
        assert await stream.read() == grpc.aio.EOF
        assert await stream.code() == grpc.StatusCode.OK

    with_client(broker, work)


def test_tools_show_members_of_groups(broker: TestBroker) -> None:
    async def work(client: RawClient, server: ProxyServer) -> None:
        others = RawClient(client.address, "second")
        streams = []
        for each in (client, others):
            settings = m.Settings(client_type=ClientType.SIMPLE_CONSUMER)
            settings.subscription.group.name = "GrpcSettlingE"
            settings.subscription.subscriptions.add(topic=m.Resource(name=TOPIC)).expression.expression = "a || b"
            streams.append(await each.settle(settings))
        async with Admin(broker.namesrv) as admin:

            async def members() -> list[tuple[str, str]]:
                found = await admin.groups.connections(broker.address, "GrpcSettlingE")
                return sorted((each.client_id, each.language) for each in found.connection_set) if found else []

            async def are_both_there() -> bool:
                return await members() == [("client", "PYTHON"), ("second", "PYTHON")]

            async def is_one_there() -> bool:
                return await members() == [("client", "PYTHON")]

            await until(are_both_there)
            await others.call("NotifyClientTermination", m.NotifyClientTerminationRequest())
            await until(is_one_there)
        for stream in streams:
            stream.cancel()
        await others.close()

    with_client(broker, work)


def test_a_client_has_a_limited_number_of_receives_that_wait(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "WAITING_PER_CLIENT_MAX", 1)
    create_topic(broker, "GrpcSettlingParked")

    async def work(client: RawClient, server: ProxyServer) -> None:
        first = asyncio.ensure_future(client.receive("GrpcSettlingParked", "GrpcSettlingF"))

        async def is_parked() -> bool:
            return server.service.waits.count == 1

        await until(is_parked)
        code, _ = await client.received("GrpcSettlingParked", "GrpcSettlingF", 9.0)
        assert code == Code.TOO_MANY_REQUESTS
        await client.send("GrpcSettlingParked", b"now")
        assert [each.body for each in await first] == [b"now"]

    with_client(broker, work)


def test_a_client_without_settings_is_refused_at_once_as_with_rocketmq(broker: TestBroker) -> None:
    """RocketMQ's proxy 5.3.3 fails at the settings that it doesn't have, before it looks at anything else."""
    create_topic(broker, "GrpcSettlingStranger")

    async def work(client: RawClient, server: ProxyServer) -> None:
        await client.send("GrpcSettlingStranger", b"waits")
        for topic in ("GrpcSettlingStranger", "no such topic!"):
            frames = [each async for each in client.receive_call(client.receiving(topic, "GrpcSettlingG"))]
            assert [each.WhichOneof("content") for each in frames] == ["status", "delivery_timestamp"]
            assert frames[0].status.code == Code.INTERNAL_SERVER_ERROR
            assert "has sent no settings" in frames[0].status.message
        await client.introduce("GrpcSettlingG")
        (found,) = await client.receive("GrpcSettlingStranger", "GrpcSettlingG")
        assert found.system_properties.delivery_attempt == 1

    with_client(broker, work)


def test_a_client_that_only_sends_heartbeats_is_served_and_gives_back_when_it_falls_silent(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's and Go's clients are such after a restart."""
    create_topic(broker, "GrpcSettlingBeats")

    async def work(client: RawClient, server: ProxyServer) -> None:
        async def received() -> list[Any]:
            request = client.receiving("GrpcSettlingBeats", "GrpcSettlingH", auto_renew=True)
            frames = [each async for each in client.receive_call(request)]
            assert frames[0].status.code == Code.OK
            return [each.message for each in frames if each.HasField("message")]

        await client.send("GrpcSettlingBeats", b"held")
        beat = await client.call("Heartbeat", m.HeartbeatRequest(client_type=ClientType.SIMPLE_CONSUMER))
        assert beat.status.code == Code.UNRECOGNIZED_CLIENT_TYPE
        assert len(await received()) == 1
        await server.service.tick()
        assert len(server.service.held) == 1
        monkeypatch.setattr(sessions, "SILENT_MS_MAX", 0)
        await server.service.tick()
        assert len(server.service.held) == 0
        monkeypatch.undo()
        await server.service.receiving.drain()
        await advance(broker, 10)
        await client.call("Heartbeat", m.HeartbeatRequest(client_type=ClientType.SIMPLE_CONSUMER))
        (again,) = await received()
        assert again.system_properties.delivery_attempt == 2

    with_client(broker, work)


def test_refusals_have_the_texts_that_programs_compare(broker: TestBroker) -> None:
    """Those of RocketMQ's proxy 5.3.3: GrpcValidator, AbstractProcessor and AckMessageActivity."""
    create_topic(broker, "GrpcSettlingTexts")

    async def work(client: RawClient, _: ProxyServer) -> None:
        await client.introduce("GrpcSettlingT")
        for invisible_ms, text in (
            (INVISIBLE_MS_MIN - 1, "the invisibleTime is too small. min is 10000"),
            (INVISIBLE_MS_MAX + 1, "the invisibleTime is too large. max is 43200000"),
        ):
            request = client.receiving(
                "GrpcSettlingTexts", "GrpcSettlingT", invisible_duration=duration_of(invisible_ms)
            )
            frames = [each async for each in client.receive_call(request)]
            assert (frames[0].status.code, frames[0].status.message) == (Code.ILLEGAL_INVISIBLE_TIME, text)
        await client.send("GrpcSettlingTexts", b"over")
        (found,) = await client.receive("GrpcSettlingTexts", "GrpcSettlingT")
        await advance(broker, 11)
        changed = await client.change("GrpcSettlingT", found, 1000)
        assert changed.status.code == Code.INVALID_RECEIPT_HANDLE
        assert changed.status.message.startswith("receipt handle is expired")
        request = m.AckMessageRequest(group=m.Resource(name="GrpcSettlingT"), topic=found.topic)
        entry = request.entries.add(receipt_handle=found.system_properties.receipt_handle)
        answer = await client.call("AckMessage", request)
        assert (answer.status.code, answer.status.message) == (Code.INVALID_RECEIPT_HANDLE, "INVALID_RECEIPT_HANDLE")
        assert answer.entries[0].status.message.startswith("receipt handle is expired")
        request.entries.add(receipt_handle=forged_handle(broker))
        assert entry
        answer = await client.call("AckMessage", request)
        assert (answer.status.code, answer.status.message) == (Code.MULTIPLE_RESULTS, "MULTIPLE_RESULTS")

    with_client(broker, work)


def forged_handle(broker: TestBroker) -> str:
    return f"0 {broker.clock.now_ms()} 10000 0 0 broker-a 0 0 0"


def test_a_request_acknowledges_so_many_messages_at_most(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        request = m.AckMessageRequest(group=m.Resource(name="GrpcSettlingB"), topic=m.Resource(name=TOPIC))
        for _number in range(ACK_COUNT_MAX):
            request.entries.add(receipt_handle="forged")
        answer = await client.call("AckMessage", request)
        assert (answer.status.code, len(answer.entries)) == (Code.INTERNAL_SERVER_ERROR, ACK_COUNT_MAX)
        request.entries.add(receipt_handle="forged")
        assert (await client.call("AckMessage", request)).status.code == Code.BAD_REQUEST

    with_client(broker, work)

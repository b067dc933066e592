"""Pull consumers: messages of one queue from an offset on, and offsets of queues and groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("grpc")

from pymq.client import PullConsumer
from pymq.model.message import MessageQueue
from pymq.proxy import waits
from pymq.proxy.conversion import timestamp_of
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.names import Code, FilterType, OffsetPolicy
from pymq.proxy.server import ProxyServer
from pymq.testing.broker import TestBroker
from tests.proxy.harness import BROKER, RawClient, create_topic, until, with_client

TOPIC, GROUP = "GrpcPulling", "grpc-pulling"


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        create_topic(broker, TOPIC, queue_count=1)

        async def send(client: RawClient, _: ProxyServer) -> None:
            for number in range(40):
                await client.send(TOPIC, b"%d" % number, tag="even" if number % 2 == 0 else "odd")

        with_client(broker, send)
        yield broker


def asking(cls: Any, topic: str = TOPIC, group: str = GROUP, **fields: Any) -> Any:
    """Return a request about the first queue of a topic."""
    request = cls()
    request.message_queue.topic.name = topic
    request.message_queue.broker.name = BROKER
    if "group" in cls.DESCRIPTOR.fields_by_name:
        request.group.name = group
    for name, value in fields.items():
        if isinstance(value, int):
            setattr(request, name, value)
        else:
            getattr(request, name).CopyFrom(value)
    return request


async def pull(client: RawClient, request: Any) -> tuple[int, list[bytes], int | None]:
    """Return the code, the bodies and the offset to go on at; checks the order of the frames."""
    frames = [each async for each in client.pull_call(request)]
    kinds = [each.WhichOneof("content") for each in frames]
    assert kinds[0] == "status" and set(kinds[1:-1]) <= {"message"}
    next_offset = frames[-1].next_offset if kinds[-1] == "next_offset" else None
    return frames[0].status.code, [each.message.body for each in frames if each.HasField("message")], next_offset


def test_a_queue_is_pulled_to_its_end_in_order(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        offset = 0
        found: list[bytes] = []
        while True:
            code, bodies, after = await pull(client, asking(m.PullMessageRequest, offset=offset, batch_size=100))
            if code == Code.MESSAGE_NOT_FOUND:
                break
            assert code == Code.OK and len(bodies) <= 32 and after is not None
            found, offset = found + bodies, after
        assert (found, after) == ([b"%d" % number for number in range(40)], 40)
        (frame,) = [
            each async for each in client.pull_call(asking(m.PullMessageRequest, offset=39)) if each.message.body
        ]
        system = frame.message.system_properties
        assert (system.queue_offset, system.tag, system.HasField("receipt_handle")) == (39, "odd", False)

    with_client(broker, work)


def test_a_pull_selects_by_tag_and_by_sql(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        for kind, text in ((FilterType.TAG, "odd"), (FilterType.SQL, "TAGS = 'odd'")):
            wanted = m.FilterExpression(type=kind, expression=text)
            request = asking(m.PullMessageRequest, offset=30, batch_size=32, filter_expression=wanted)
            assert await pull(client, request) == (Code.OK, [b"31", b"33", b"35", b"37", b"39"], 40)
        wrong = m.FilterExpression(type=FilterType.SQL, expression="a >")
        assert (await pull(client, asking(m.PullMessageRequest, filter_expression=wrong)))[
            0
        ] == Code.INTERNAL_SERVER_ERROR

    with_client(broker, work)


def test_a_pull_waits_for_a_message_within_its_time_and_a_stop_ends_it(broker: TestBroker) -> None:
    create_topic(broker, "GrpcPullingWait", queue_count=1)

    async def work(client: RawClient, server: ProxyServer) -> None:
        request = asking(m.PullMessageRequest, "GrpcPullingWait", long_polling_timeout=m.Duration(seconds=9))

        async def is_parked() -> bool:
            return server.service.waits.count == 1

        waiting = asyncio.ensure_future(pull(client, request))
        await until(is_parked)
        await client.send("GrpcPullingWait", b"now")
        assert await waiting == (Code.OK, [b"now"], 1)
        request.offset = 1
        waiting = asyncio.ensure_future(pull(client, request))
        await until(is_parked)
        await server.stop()
        assert await waiting == (Code.MESSAGE_NOT_FOUND, [], 1)

    with_client(broker, work)


def test_a_client_has_a_limited_number_of_pulls_that_wait(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "WAITING_PER_CLIENT_MAX", 1)

    async def work(client: RawClient, server: ProxyServer) -> None:
        request = asking(m.PullMessageRequest, offset=40, long_polling_timeout=m.Duration(seconds=9))
        call = client.pull_call(request)
        reading = asyncio.ensure_future(call.read())

        async def is_parked() -> bool:
            return server.service.waits.count == 1

        async def is_free() -> bool:
            return server.service.waits.count == 0

        await until(is_parked)
        assert (await pull(client, request))[0] == Code.TOO_MANY_REQUESTS
        call.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await until(is_free)
        assert (await pull(client, asking(m.PullMessageRequest, offset=39)))[0] == Code.OK

    with_client(broker, work)


def test_a_group_has_one_offset_for_both_protocols(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: RawClient, server: ProxyServer) -> None:
        assert (await pull(client, asking(m.PullMessageRequest)))[0] == Code.OK  # which makes the group
        answer = await client.call("GetOffset", asking(m.GetOffsetRequest))
        assert (answer.status.code, answer.offset) == (Code.OK, 0), "where a new group starts in a young queue"
        assert (await client.call("UpdateOffset", asking(m.UpdateOffsetRequest, offset=7))).status.code == Code.OK
        answer = await client.call("GetOffset", asking(m.GetOffsetRequest))
        assert (answer.status.code, answer.offset) == (Code.OK, 7)
        async with PullConsumer(GROUP, namesrv=broker.namesrv) as consumer:
            queue = MessageQueue(TOPIC, BROKER, 0)
            assert await consumer.committed(queue) == 7
            await consumer.commit(queue, 9)
        assert (await client.call("GetOffset", asking(m.GetOffsetRequest))).offset == 9

        async def nothing(group: str, queue: MessageQueue) -> None:
            return None

        monkeypatch.setattr(server.service.pulling._backend, "committed", nothing)
        assert (await client.call("GetOffset", asking(m.GetOffsetRequest))).status.code == Code.OFFSET_NOT_FOUND

    with_client(broker, work)


def test_offsets_of_a_queue_by_each_policy(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        async def offset(policy: int, **fields: Any) -> tuple[int, int]:
            request = asking(m.QueryOffsetRequest, query_offset_policy=policy, **fields)
            answer = await client.call("QueryOffset", request)
            return answer.status.code, answer.offset

        assert await offset(OffsetPolicy.BEGINNING) == (Code.OK, 0)
        assert await offset(OffsetPolicy.END) == (Code.OK, 40)
        assert await offset(OffsetPolicy.TIMESTAMP, timestamp=timestamp_of(1)) == (Code.OK, 0)
        assert await offset(OffsetPolicy.TIMESTAMP) == (Code.BAD_REQUEST, 0)
        assert await offset(3) == (Code.BAD_REQUEST, 0)

    with_client(broker, work)


def test_requests_that_can_not_be_served_have_their_codes(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        for cls in (m.PullMessageRequest, m.UpdateOffsetRequest, m.GetOffsetRequest, m.QueryOffsetRequest):

            async def code(request: Any) -> int:
                name = type(request).__name__.removesuffix("Request")
                if name == "PullMessage":
                    return (await pull(client, request))[0]
                return int((await client.call(name, request)).status.code)

            assert await code(asking(cls, "a b")) == Code.ILLEGAL_TOPIC
            assert await code(asking(cls, "GrpcPullingNowhere")) == Code.TOPIC_NOT_FOUND
            request = asking(cls)
            request.message_queue.broker.name = ""
            assert await code(request) == Code.BAD_REQUEST
            request = asking(cls)
            request.message_queue.id = -1
            assert await code(request) == Code.BAD_REQUEST
            if "group" in cls.DESCRIPTOR.fields_by_name:
                assert await code(asking(cls, group="a b")) == Code.ILLEGAL_CONSUMER_GROUP
            if "offset" in cls.DESCRIPTOR.fields_by_name:
                assert await code(asking(cls, offset=-1)) == Code.ILLEGAL_OFFSET
        assert await pull(client, asking(m.PullMessageRequest, offset=41)) == (Code.ILLEGAL_OFFSET, [], 40)
        nobody = RawClient(client.address, "")
        assert (await pull(nobody, asking(m.PullMessageRequest)))[0] == Code.CLIENT_ID_REQUIRED
        await nobody.close()

    with_client(broker, work)

"""Requests that wait for replies, and a send's deadline, against scripted name servers and brokers."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from pymq.client import Message, MessageQueue, Producer, StoredMessage
from pymq.client.requests import reply_message, request_message
from pymq.clock import SystemClock
from pymq.errors import ClosedError, RefusedError, RequestTimeoutError, UnreachableError, UsageError
from pymq.model import sysflag
from pymq.model.compression import compress_body
from pymq.model.properties import decode_properties
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from tests.client.fake_broker import NO_ANSWER, FakeServer, route_reply, serve_routes
from tests.client.messages import message as make_message
from tests.client.test_producer import SEND, run, sent, stored

PUSH = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
REPLY = RequestCode.SEND_REPLY_MESSAGE_V2


def pushed(properties: dict[str, str], body: bytes = b"answer", **changes: str) -> Command:
    """Return a broker's push of a reply."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    fields = {
        "producerGroup": "PG2",
        "topic": "C_REPLY_TOPIC",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "5",
        "flag": "0",
        "properties": text,
        "bornHost": "/127.0.0.1:1",
        "storeHost": "127.0.0.1:2",
        "storeTimestamp": "6",
        **changes,
    }
    return Command(PUSH, opaque=77, ext=fields, body=body)


def asked_in(broker: FakeServer) -> dict[str, str]:
    return decode_properties(sent(broker)[0].properties.encode())


def test_a_request_says_where_its_reply_goes() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        waiting = asyncio.ensure_future(producer.request(Message("T", b"?", properties={"a": "b"}), timeout_s=9))
        await brokers[0].wait_for(SEND)
        assert brokers[0].count(RequestCode.HEART_BEAT) == 1, "the broker must know the producer before the reply comes"
        asked = asked_in(brokers[0])
        assert (asked["REPLY_TO_CLIENT"], asked["a"]) == (producer.client_id, "b")
        assert 0 < int(asked["TTL"]) <= 9000
        packed, flags = compress_body(b"z" * 9000, "zlib")
        brokers[0].push(pushed({"CORRELATION_ID": asked["CORRELATION_ID"]}, packed, sysFlag=str(flags)))
        reply = await waiting
        assert reply.content() == b"z" * 9000 and reply.sys_flag & sysflag.COMPRESSED
        assert (await brokers[0].wait_for_answers()).code == 0

    run(scenario)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (pushed({"CORRELATION_ID": "other"}), ResponseCode.SUCCESS),
        (pushed({}), ResponseCode.SUCCESS),
        (pushed({}, bornHost="nowhere"), ResponseCode.SYSTEM_ERROR),
        (Command(PUSH, opaque=77, ext={}), ResponseCode.SYSTEM_ERROR),
        (Command(999, opaque=77, ext={}), ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
    ],
)
def test_what_answers_no_request_is_answered_and_dropped(command: Command, code: int) -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        waiting = asyncio.ensure_future(producer.request(Message("T", b"?"), timeout_s=30))
        await brokers[0].wait_for(SEND)
        brokers[0].push(command)
        assert (await brokers[0].wait_for_answers()).code == code
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert len(producer._requests) == 0

    run(scenario)


def test_a_request_without_a_reply_ends_with_its_time() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        await producer.send(Message("T", b"x"))  # connects, which may take longer than what follows
        with pytest.raises(RequestTimeoutError, match="a consumer of the topic replies"):
            await producer.request(Message("T", b"?"), timeout_s=0.5)
        assert len(producer._requests) == 0

    run(scenario)


def test_a_stopped_producer_waits_for_no_reply() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        waiting = asyncio.ensure_future(producer.request(Message("T", b"?"), timeout_s=30))
        await brokers[0].wait_for(SEND)
        await producer.stop()
        with pytest.raises(ClosedError, match="stopped"):
            await waiting

    run(scenario)


def test_a_producer_that_is_not_started_makes_no_request() -> None:
    with pytest.raises(UsageError, match=r"start\(\)"):
        asyncio.run(Producer("PG", namesrv="127.0.0.1:1").request(Message("T", b"?")))


def test_a_reply_goes_first_to_the_requests_broker() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        addresses = {f"broker-{i}": server.address for i, server in enumerate(brokers)}
        serve_routes(namesrv, {"C_REPLY_TOPIC": route_reply(addresses, queues=1)})
        for broker in brokers:
            broker.on(REPLY, stored)
        request = request_from("broker-2")
        for _ in range(3):
            await producer.reply(request, Message("any", b"yes", properties={"x": "y"}))
        header, body = sent(brokers[2], code=REPLY)
        assert (brokers[2].count(REPLY), header.topic, body) == (3, "C_REPLY_TOPIC", b"yes")
        told = decode_properties(header.properties.encode())
        assert (told["MSG_TYPE"], told["CORRELATION_ID"], told["REPLY_TO_CLIENT"]) == ("reply", "c-1", "me@1")
        assert (told["TTL"], told["x"]) == ("3000", "y")
        for broker in brokers:
            broker.refuse(REPLY, ResponseCode.SYSTEM_ERROR, "channel not found")
        with pytest.raises(RefusedError, match="channel not found"):
            await producer.reply(request, "no")

    run(scenario, brokers=3)


def request_from(broker_name: str) -> StoredMessage:
    message = make_message(CLUSTER="C", CORRELATION_ID="c-1", REPLY_TO_CLIENT="me@1", TTL="3000")
    message.broker_name = broker_name
    return message


def test_only_a_request_can_be_replied_to() -> None:
    with pytest.raises(UsageError, match="CORRELATION_ID and no REPLY_TO_CLIENT"):
        reply_message(make_message(CLUSTER="C"), b"x")
    with pytest.raises(UsageError, match="delay"):
        reply_message(request_from("b"), Message("T", b"x", delay_level=3))
    with pytest.raises(UsageError, match="TTL"):
        request_message(Message("T", b"x", properties={"TTL": "1"}), "me@1", "c-1", 3)


def test_a_cluster_without_a_reply_topic_gets_requests_all_the_same() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        serve_routes(namesrv, {"T": route_reply({"broker-0": brokers[0].address})})
        waiting = asyncio.ensure_future(producer.request(Message("T", b"?"), timeout_s=30))
        await brokers[0].wait_for(SEND)
        brokers[0].push(pushed({"CORRELATION_ID": asked_in(brokers[0])["CORRELATION_ID"]}))
        assert (await waiting).body == b"answer"

    run(scenario)


def test_brokers_of_the_reply_topic_know_the_producer_first() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        addresses = {f"broker-{i}": server.address for i, server in enumerate(brokers)}
        routes = {"T": route_reply({"broker-0": brokers[0].address}), "C_REPLY_TOPIC": route_reply(addresses)}
        serve_routes(namesrv, routes)
        waiting = asyncio.ensure_future(producer.request(Message("T", b"?"), timeout_s=30))
        await brokers[0].wait_for(SEND)
        assert brokers[1].count(RequestCode.HEART_BEAT) == 1
        waiting.cancel()

    run(scenario, brokers=2)


@pytest.mark.parametrize("name", ["send", "send_batch", "request", "queue", "selector"])
def test_a_silent_name_server_takes_no_more_than_the_callers_time(name: str) -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        namesrv.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda _: NO_ANSWER)
        message, queue = Message("T", b"x"), MessageQueue("T", "broker-0", 0)
        calls: dict[str, Any] = {
            "send": lambda: producer.send(message, timeout_s=0.2),
            "send_batch": lambda: producer.send_batch([message], timeout_s=0.2),
            "request": lambda: producer.request(message, timeout_s=0.2),
            "queue": lambda: producer.send(message, timeout_s=0.2, queue=queue),
            "selector": lambda: producer.send(message, timeout_s=0.2, selector=lambda queues, _: queues[0]),
        }
        with pytest.raises(UnreachableError, match=r"within 0\.[12]"):
            # Far below the 3 s that a name server gets.
            await asyncio.wait_for(calls[name](), 2.5)
        await producer.stop()

    run(scenario)


def test_a_second_name_server_is_asked_within_a_sends_time() -> None:
    async def main() -> None:
        silent, answering, broker = [await FakeServer().start() for _ in range(3)]
        silent.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda _: NO_ANSWER)
        serve_routes(answering, {"T": route_reply({"broker-0": broker.address})})
        broker.on(SEND, stored)
        namesrv = [silent.address, answering.address]
        async with Producer("PG", namesrv=namesrv, rng=random.Random(1), clock=SystemClock()) as producer:
            producer._instance.name_servers._current = 0
            assert (await producer.send(Message("T", b"x"), timeout_s=30)).queue_offset == 7
            assert silent.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) == 1
        for server in (silent, answering, broker):
            await server.stop()

    asyncio.run(main())

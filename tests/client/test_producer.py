"""Producer against scripted name servers and brokers."""

from __future__ import annotations

import asyncio
import random
import zlib
from typing import Any

import pytest

from pymq.client import Message, MessageQueue, Producer, SendStatus
from pymq.clock import ManualClock
from pymq.errors import NoQueueError, NotFoundError, RefusedError, RequestTimeoutError, UnreachableError, UsageError
from pymq.model import sysflag
from pymq.model.properties import decode_properties
from pymq.model.record import decode_batch
from pymq.wire.bodies_client import HeartbeatData, decode_body
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.header import decode_header
from pymq.wire.headers.send import SendMessageAnswer, SendMessageV2Header
from pymq.wire.reply import Reply
from tests.client.fake_broker import FakeServer, route_reply, serve_routes

SEND = RequestCode.SEND_MESSAGE_V2
BATCH = RequestCode.SEND_BATCH_MESSAGE


def stored(command: Command) -> Any:
    """Make a broker that stores every message at offset 7 of the requested queue."""
    header = decode_header(SendMessageV2Header, command.ext)
    return Reply(ext=SendMessageAnswer(message_id="7F" * 16, queue_id=header.queue_id, queue_offset=7))


def sent(broker: Any, n: int = 0, code: Any = SEND) -> Any:
    command = broker.requests[code][n]
    return decode_header(SendMessageV2Header, command.ext), command.body


def run(scenario: Any, *, brokers: int = 1, **options: Any) -> None:
    """Run ``scenario(namesrv, brokers, producer)`` with a topic T on all brokers, 2 queues each."""

    async def main() -> None:
        namesrv = await FakeServer().start()
        servers = [await FakeServer().start() for _ in range(brokers)]
        addresses = {f"broker-{i}": server.address for i, server in enumerate(servers)}
        serve_routes(
            namesrv, {"T": route_reply(addresses, queues=2), "TBW102": route_reply(addresses, queues=8, perm=7)}
        )
        for server in servers:
            server.on(SEND, stored)
            server.on(BATCH, stored)
        try:
            async with Producer("PG", namesrv=namesrv.address, rng=random.Random(3), **options) as producer:
                await scenario(namesrv, servers, producer)
        finally:
            await namesrv.stop()
            for server in servers:
                await server.stop()

    asyncio.run(main())


def test_send_returns_the_place_of_the_message() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        message = Message("T", b"hello", tags="A", keys="k1 k2", properties={"city": "Köln"}, flag=5)
        result = await producer.send(message)
        header, body = sent(brokers[0])
        assert result.status is SendStatus.SEND_OK
        assert result.offset_message_id == "7F" * 16
        assert result.queue == MessageQueue("T", "broker-0", header.queue_id)
        assert result.queue_offset == 7
        assert body == b"hello"
        assert (header.producer_group, header.topic, header.flag, header.sys_flag) == ("PG", "T", 5, 0)
        assert (header.default_topic, header.default_topic_queue_nums) == ("TBW102", 4)
        assert decode_properties(header.properties.encode()) == {
            "city": "Köln",
            "TAGS": "A",
            "KEYS": "k1 k2",
            "UNIQ_KEY": result.message_id,
            "WAIT": "true",
        }
        assert len(result.message_id) == 32

    run(scenario)


def test_queues_are_used_in_turn() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        for _ in range(8):
            await producer.send(Message("T", b"x"))
        used = [(i, sent(b, n)[0].queue_id) for i, b in enumerate(brokers) for n in range(b.count(SEND))]
        assert sorted(used) == sorted([(b, q) for b in (0, 1) for q in (0, 1)] * 2)

    run(scenario, brokers=2)


def test_the_route_is_asked_for_once() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        await asyncio.gather(*[producer.send(Message("T", b"x")) for _ in range(10)])
        assert namesrv.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) == 1

    run(scenario)


def test_an_unknown_topic_goes_to_four_queues_of_the_template() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        queues = await producer.queues("New")
        assert queues == [MessageQueue("New", "broker-0", i) for i in range(4)]
        await producer.send(Message("New", b"x"))
        assert sent(brokers[0])[0].topic == "New"
        asked = [command.ext["topic"] for command in namesrv.requests[RequestCode.GET_ROUTEINFO_BY_TOPIC]]
        assert asked == ["New", "TBW102"]

    run(scenario)


def test_an_unknown_topic_without_a_template_is_not_found() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        serve_routes(namesrv, {})
        with pytest.raises(NotFoundError, match="create it first"):
            await producer.send(Message("New", b"x"))

    run(scenario)


def test_a_topic_without_write_permission_is_not_found_writable() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        serve_routes(namesrv, {"T": route_reply({"broker-0": brokers[0].address}, perm=4)})
        with pytest.raises(NoQueueError, match="no queue to write to: its permission on broker-0 is R--"):
            await producer.send(Message("T", b"x"))

    run(scenario)


@pytest.mark.parametrize("code", [17, 14, 1, 2, 16, 204, 205, 1500])
def test_another_broker_takes_what_one_refuses(code: int) -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        brokers[0].refuse(SEND, code)
        results = [await producer.send(Message("T", b"x")) for _ in range(4)]
        assert {result.queue.broker_name for result in results} == {"broker-1"}
        assert 1 <= brokers[0].count(SEND) <= 2  # later sends avoid it for a while

    run(scenario, brokers=2)


def test_a_retry_keeps_the_unique_key() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        brokers[0].refuse(SEND, ResponseCode.SYSTEM_BUSY)
        brokers[1].refuse(SEND, ResponseCode.SYSTEM_BUSY)
        with pytest.raises(RefusedError):
            await producer.send(Message("T", b"x"))
        attempts = [sent(broker, n)[0] for broker in brokers for n in range(broker.count(SEND))]
        keys = {decode_properties(header.properties.encode())["UNIQ_KEY"] for header in attempts}
        assert len(keys) == 1
        assert len(attempts) == 3

    run(scenario, brokers=2)


def test_a_dead_broker_is_replaced_by_another() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        await brokers[0].stop()
        results = [await producer.send(Message("T", b"x")) for _ in range(3)]
        assert {result.queue.broker_name for result in results} == {"broker-1"}

    run(scenario, brokers=2)


@pytest.mark.parametrize("avoids", [True, False])
def test_a_slow_broker_is_avoided_for_a_while(avoids: bool) -> None:
    clock = ManualClock()

    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        def slow(command: Command) -> Any:
            clock.advance(550)
            return stored(command)

        async def used(count: int) -> set[str]:
            sends = [await producer.send(Message("T", b"x")) for _ in range(count)]
            return {result.queue.broker_name for result in sends}

        brokers[0].on(SEND, slow)
        await used(4)  # the slow one is among them
        brokers[0].on(SEND, stored)
        assert await used(8) == ({"broker-1"} if avoids else {"broker-0", "broker-1"})
        clock.advance(2000)
        assert await used(8) == {"broker-0", "broker-1"}

    run(scenario, brokers=2, clock=clock, avoid_slow_brokers=avoids)


def test_other_codes_are_raised_at_once() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        for broker in brokers:
            broker.refuse(SEND, ResponseCode.MESSAGE_ILLEGAL, "too large")
        with pytest.raises(RefusedError, match="too large") as caught:
            await producer.send(Message("T", b"x"))
        assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL
        assert sum(broker.count(SEND) for broker in brokers) == 1

    run(scenario, brokers=2)


def test_no_answer_is_a_timeout() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        await producer.send(Message("T", b"x"))  # connects, which may take longer than what follows
        brokers[0].on(SEND, lambda command: None)
        with pytest.raises(RequestTimeoutError):
            await producer.send(Message("T", b"x"), timeout_s=0.1)

    run(scenario)


@pytest.mark.parametrize(
    ("code", "status"), [(10, "FLUSH_DISK_TIMEOUT"), (11, "SLAVE_NOT_AVAILABLE"), (12, "FLUSH_SLAVE_TIMEOUT")]
)
def test_stored_but_unconfirmed_is_a_status_not_an_error(code: int, status: Any) -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        def unconfirmed(command: Command) -> Any:
            reply = stored(command)
            reply.code = code
            return reply

        brokers[0].on(SEND, unconfirmed)
        assert (await producer.send(Message("T", b"x"))).status.value == status

    run(scenario)


def test_a_chosen_queue_is_used_and_not_retried() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        queue = MessageQueue("T", "broker-1", 1)
        assert (await producer.send(Message("T", b"x"), queue=queue)).queue == queue
        brokers[1].refuse(SEND, ResponseCode.SYSTEM_BUSY)
        with pytest.raises(RefusedError):
            await producer.send(Message("T", b"x"), queue=queue)
        assert brokers[0].count(SEND) == 0

    run(scenario, brokers=2)


def test_a_selector_sees_queues_and_message() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        def by_key(queues: Any, message: Message) -> Any:
            assert len(queues) == 4
            return queues[int(message.keys) % len(queues)]

        results = [await producer.send(Message("T", b"x", keys=str(n)), selector=by_key) for n in range(4)]
        assert [tuple(r.queue) for r in results] == [("T", f"broker-{b}", q) for b in (0, 1) for q in (0, 1)]

    run(scenario, brokers=2)


def test_large_bodies_are_compressed_small_ones_are_not() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        await producer.send(Message("T", b"a" * 4096))
        await producer.send(Message("T", b"a" * 4097))
        await producer.send(Message("T", random.Random(1).randbytes(5000)))
        small, large, random_one = (sent(brokers[0], n) for n in range(3))
        assert small[0].sys_flag == 0 and small[1] == b"a" * 4096
        assert large[0].sys_flag == sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB
        assert zlib.decompress(large[1]) == b"a" * 4097
        assert random_one[0].sys_flag == 0  # compression made it longer

    run(scenario)


def test_oneway_is_written_without_an_answer() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        await producer.send_oneway(Message("T", b"x"))
        await producer.send_oneway(Message("T", b"y"), queue=MessageQueue("T", "broker-0", 1))
        command = await brokers[0].wait_for(SEND, 2)
        assert command.is_oneway and command.body == b"y"

    run(scenario)


def test_send_async_is_a_task() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        tasks = [producer.send_async(Message("T", b"x")) for _ in range(20)]
        assert all(isinstance(task, asyncio.Task) for task in tasks)
        assert len({result.message_id for result in await asyncio.gather(*tasks)}) == 20

    run(scenario)


def test_a_batch_is_one_request_and_lists_the_keys() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        result = await producer.send_batch([Message("T", b"%d" % n, tags=f"t{n}") for n in range(5)])
        header, body = sent(brokers[0], code=BATCH)
        entries = decode_batch(body)
        assert [entry[1] for entry in entries] == [b"0", b"1", b"2", b"3", b"4"]
        assert header.batch is True
        keys = [decode_properties(entry[2])["UNIQ_KEY"] for entry in entries]
        assert result.message_id == ",".join(keys)
        assert decode_properties(header.properties.encode()).keys() == {"WAIT"}, (
            "a key would replace those of the messages"
        )

    run(scenario)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "empty"),
        ([Message("T", b"a"), Message("U", b"b")], "one topic"),
        ([Message("T", b"a"), Message("T", b"b", delay_level=1)], "delayed"),
        ([Message("T", b"a"), Message("T", b"b", wait_store=False)], "wait_store"),
        ([Message("%RETRY%g", b"a")], "retry topic"),
        ([Message("T", b"a" * 600), Message("T", b"b" * 600)], "smaller parts"),
        ([Message("T", b"")], "body is empty"),
    ],
)
def test_invalid_batches_are_refused_by_the_client(messages: Any, problem: Any) -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        with pytest.raises(UsageError, match=problem):
            await producer.send_batch(messages)
        assert brokers[0].count(BATCH) == 0

    run(scenario, body_size_max_bytes=1000)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (Message("T", b""), "body is empty"),
        (Message("T", b"x" * 1001), "limit is 1000"),
        (Message("bad/topic", b"x"), "outside"),
        (Message("", b"x"), "empty"),
        (Message(None, b"x"), "topic is None: it is text"),  # type: ignore[call-overload]
        ("a text", "is no message: write Message"),
        (Message("T", b"x", properties={"TRAN_MSG": "true"}), "RocketMQ's own"),
        (Message("T", b"x", properties={"a": "\x01"}), "separator"),
        (Message("T", b"x", properties={"a": "\x02b"}), "separator"),
        (Message("T", b"x", properties={"a": "v" * 33_000}), "32767"),
    ],
)
def test_messages_that_no_broker_accepts_are_refused_by_the_client(message: Message, problem: Any) -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        with pytest.raises(UsageError, match=problem):
            await producer.send(message)
        assert brokers[0].count(SEND) == 0

    run(scenario, body_size_max_bytes=1000)


def test_a_producer_registers_with_brokers_and_unregisters() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        await producer.send(Message("T", b"x"))
        command = await brokers[0].wait_for(RequestCode.HEART_BEAT)
        heartbeat = decode_body(HeartbeatData, command.body)
        assert heartbeat.client_id == producer.client_id
        assert [data.group_name for data in heartbeat.producer_data_set] == ["PG"]
        await producer.stop()
        goodbye = await brokers[0].wait_for(RequestCode.UNREGISTER_CLIENT)
        assert goodbye.ext == {"clientID": producer.client_id, "producerGroup": "PG"}

    run(scenario)


def test_name_servers_fall_over() -> None:
    async def main() -> None:
        namesrv, broker = await FakeServer().start(), await FakeServer().start()
        dead = await FakeServer().start()
        await dead.stop()
        broker.on(SEND, stored)
        serve_routes(namesrv, {"T": route_reply({"b": broker.address})})
        for seed in range(4):  # the one that is asked first
            addresses = f"{dead.address};{namesrv.address}"
            async with Producer("PG", namesrv=addresses, rng=random.Random(seed)) as producer:
                await producer.send(Message("T", b"x"))
        async with Producer("PG", namesrv=f"{dead.address}") as producer:
            with pytest.raises(UnreachableError, match="no name server answers"):
                await producer.send(Message("T", b"x"))
        await namesrv.stop()
        await broker.stop()

    asyncio.run(main())


def test_routes_are_kept_without_name_servers_and_renewed_with_them() -> None:
    async def scenario(namesrv: FakeServer, brokers: list[FakeServer], producer: Producer) -> None:
        await producer.send(Message("T", b"x"))
        serve_routes(namesrv, {"T": route_reply({"broker-1": brokers[1].address})})
        await namesrv.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC, 3)
        assert {queue.broker_name for queue in await producer.queues("T")} == {"broker-1"}
        await namesrv.stop()
        assert (await producer.send(Message("T", b"x"))).queue.broker_name == "broker-1"

    run(scenario, brokers=2, poll_interval_s=0.02)


@pytest.mark.parametrize("namesrv", ["", " ; ", "host", "host:port"])
def test_invalid_name_server_lists_are_refused(namesrv: Any) -> None:
    with pytest.raises(UsageError):
        Producer("PG", namesrv=namesrv)


def test_an_illegal_group_is_refused() -> None:
    with pytest.raises(UsageError):
        Producer("no group", namesrv="127.0.0.1:1")

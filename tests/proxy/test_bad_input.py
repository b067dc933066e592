"""What no client should send, over real connections: each has its status, and another client is served meanwhile."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("grpc")

import grpc

from pymq.proxy.checks import DELIVERY_AHEAD_MS_MAX
from pymq.proxy.clients import UNREAD_COMMANDS_MAX
from pymq.proxy.conversion import timestamp_of
from pymq.proxy.drafts import duration_ms
from pymq.proxy.http2.frames import Setting
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.messages import SERVICE
from pymq.proxy.protocol.names import ClientType, Code
from pymq.proxy.rpc import connection as connection_module
from pymq.proxy.rpc.call_fields import METADATA_BYTES_MAX
from pymq.proxy.rpc.connection import CONNECTION_WINDOW_BYTES
from pymq.proxy.rpc.connection_owner import RequestSizes
from pymq.proxy.server import ProxyServer
from pymq.proxy.settings import SETTINGS_BYTES_MAX
from pymq.testing.broker import TestBroker
from tests.proxy.harness import CALL_TIMEOUT_S, RawClient, create_topic, until, with_client
from tests.proxy.test_checks import IN_ORDER, NOW_MS

TOPIC, QUIET = "GrpcBadInput", "GrpcBadInputQuiet"
MIB = 1024 * 1024
PACE_S = 0.02  # of the other client, which must not take the machine from the one that is tested


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker(mappedFileSizeCommitLog=str(64 * MIB)) as broker:
        create_topic(broker, TOPIC, "MIXED", queue_count=1)
        create_topic(broker, QUIET)
        yield broker


@asynccontextmanager
async def another_is_served(address: str) -> AsyncIterator[None]:
    """Have another client send all the time that the block runs; each of its messages must be stored."""
    other = RawClient(address, "other")
    codes: list[int] = []

    async def send() -> None:
        while True:
            codes.append((await other.send(QUIET)).status.code)
            await asyncio.sleep(PACE_S)

    sending = asyncio.ensure_future(send())

    async def has_sent_more(count: int = 0) -> bool:
        if sending.done():
            sending.result()
        return len(codes) > count

    try:
        await until(has_sent_more)
        yield
        count = len(codes)
        await until(lambda: has_sent_more(count))
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await other.close()
    assert set(codes) == {Code.OK}


async def advance(broker: TestBroker, seconds: float) -> None:
    await asyncio.to_thread(broker.clock.advance, seconds=seconds)


def test_messages_over_every_limit_and_at_it(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        async def code(change: Any) -> int:
            message = client.message(TOPIC)
            change(message)
            system = message.system_properties
            if system.HasField("delivery_timestamp"):  # the table's present is another one, and stands still
                ahead_ms = duration_ms(system.delivery_timestamp) - NOW_MS
                ahead_ms += 60_000 if ahead_ms > DELIVERY_AHEAD_MS_MAX else 0
                system.delivery_timestamp.CopyFrom(timestamp_of(broker.clock.now_ms() + ahead_ms))
            answer = await client.call("SendMessage", m.SendMessageRequest(messages=[message]))
            assert answer.status.code == Code.OK or not answer.entries
            return int(answer.status.code)

        async with another_is_served(client.address):
            for expected, wrong, right in IN_ORDER:
                assert await code(wrong) == expected
                if expected != Code.ILLEGAL_TOPIC:
                    assert await code(right) == Code.OK, expected

    with_client(broker, work)


def test_a_request_over_the_limit_fails_its_call_alone(broker: TestBroker) -> None:
    request = m.SendMessageRequest(messages=[RawClient.message(RawClient, TOPIC, bytes(MIB))])  # type: ignore[arg-type]

    async def work(client: RawClient, server: ProxyServer) -> None:
        server.rpc.sizes = RequestSizes(request_bytes_max=request.ByteSize())
        async with another_is_served(client.address):
            assert (await client.call("SendMessage", request)).status.code == Code.OK
            request.messages[0].body += b"x"
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.call("SendMessage", request)
            assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED

    with_client(broker, work)


def test_metadata_beyond_the_limit(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        async with another_is_served(client.address):
            for size_bytes, is_taken in ((METADATA_BYTES_MAX - 1024, True), (METADATA_BYTES_MAX, False), (MIB, False)):
                big = RawClient(client.address, "big", **{"x-mq-namespace": "n" * size_bytes})
                if is_taken:
                    assert (await big.send(QUIET)).status.code == Code.OK
                else:
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await big.send(QUIET)
                    assert caught.value.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
                await big.close()

    with_client(broker, work)


def test_calls_beyond_those_of_a_connection_are_held_back_by_its_client(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = 50
    settings = {**connection_module._SETTINGS, Setting.MAX_CONCURRENT_STREAMS: few}
    monkeypatch.setattr(connection_module, "_SETTINGS", settings)

    async def work(client: RawClient, server: ProxyServer) -> None:
        most = 0
        heartbeat = client.channel.unary_unary(f"/{SERVICE}/Heartbeat")

        async def one() -> None:
            nonlocal most
            await heartbeat(b"", metadata=client.metadata, timeout=CALL_TIMEOUT_S)
            most = max(most, *[len(each.calls) for each in server.rpc.connections])

        await asyncio.gather(*[one() for _ in range(20 * few)])
        assert most <= few
        assert (await client.send(QUIET)).status.code == Code.OK

    with_client(broker, work)


def test_calls_that_are_given_up_leave_nothing(broker: TestBroker) -> None:
    """Some end by their deadline before they are served, others are cancelled, with requests of many frames."""
    rng = random.Random(7)

    async def work(client: RawClient, server: ProxyServer) -> None:
        send = client.channel.unary_unary(f"/{SERVICE}/SendMessage")
        ended: Counter[str] = Counter()

        async def one() -> None:
            body = bytes(rng.choice((10, 20_000, 200_000)))
            data = m.SendMessageRequest(messages=[client.message(QUIET, body)]).SerializeToString()
            call = send(data, metadata=client.metadata, timeout=rng.choice((0.001, 0.01, CALL_TIMEOUT_S)))
            if rng.random() < 0.3:
                asyncio.get_running_loop().call_later(rng.random() / 100, call.cancel)
            try:
                await call
                ended["answered"] += 1
            except (grpc.aio.AioRpcError, asyncio.CancelledError):
                ended["given up"] += 1

        for _ in range(10):
            await asyncio.gather(*[one() for _ in range(60)])
        assert ended["answered"] > 50 and ended["given up"] > 50, ended
        (connection,) = server.rpc.connections

        async def is_empty() -> bool:
            return not connection.calls and not connection._http._streams

        await until(is_empty)
        assert connection._account.held == 0
        assert connection._http._receive_window + connection._http._released == CONNECTION_WINDOW_BYTES
        assert (await client.send(QUIET)).status.code == Code.OK

    with_client(broker, work)


def test_a_receipt_of_another_group_settles_nothing(broker: TestBroker) -> None:
    create_topic(broker, "GrpcBadReceipts", queue_count=1)

    async def work(client: RawClient, _: ProxyServer) -> None:
        await client.send("GrpcBadReceipts", b"mine")
        (found,) = await client.receive("GrpcBadReceipts", "grpc-mine")
        async with another_is_served(client.address):
            assert await client.ack("grpc-theirs", found) in (Code.OK, Code.INVALID_RECEIPT_HANDLE)
            await client.change("grpc-theirs", found, 3600_000)
        await advance(broker, 20)
        (again,) = await client.receive("GrpcBadReceipts", "grpc-mine")
        assert (again.body, again.system_properties.delivery_attempt) == (b"mine", 2)
        (theirs,) = await client.receive("GrpcBadReceipts", "grpc-theirs")
        assert theirs.body == b"mine"

    with_client(broker, work)


def test_a_stale_receipt_is_refused_and_the_newer_one_counts(broker: TestBroker) -> None:
    create_topic(broker, "GrpcStaleReceipts", queue_count=1)

    async def work(client: RawClient, _: ProxyServer) -> None:
        await client.send("GrpcStaleReceipts", b"one")
        (stale,) = await client.receive("GrpcStaleReceipts", "grpc-stale")
        await advance(broker, 20)
        (newer,) = await client.receive("GrpcStaleReceipts", "grpc-stale")
        async with another_is_served(client.address):
            assert await client.ack("grpc-stale", stale) == Code.INVALID_RECEIPT_HANDLE
            changed = await client.change("grpc-stale", stale, 3600_000)
            assert changed.status.code == Code.INVALID_RECEIPT_HANDLE
            later = await client.change("grpc-stale", newer, 30_000)
            assert later.status.code == Code.OK
            assert await client.ack("grpc-stale", newer) == Code.OK, "in its time, but it settles nothing"
        await advance(broker, 40)
        (newer,) = await client.receive("GrpcStaleReceipts", "grpc-stale")
        assert newer.system_properties.delivery_attempt == 3
        async with another_is_served(client.address):
            later = await client.change("grpc-stale", newer, 30_000)
            newer.system_properties.receipt_handle = later.receipt_handle
            assert await client.ack("grpc-stale", newer) == Code.OK
        await advance(broker, 60)
        await client.send("GrpcStaleReceipts", b"two")
        assert [each.body for each in await client.receive("GrpcStaleReceipts", "grpc-stale")] == [b"two"]

    with_client(broker, work)


def raw_call(address: str, path: str, timeout: str, body: bytes) -> list[tuple[int, bytes]]:
    """Make one call over a bare connection, with a timeout that no library sends. Return the frames (type, data)."""
    host, _, port = address.rpartition(":")

    def frame(kind: int, flags: int, stream: int, data: bytes) -> bytes:
        return struct.pack(">I", len(data))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + data

    def field(name: str, value: str) -> bytes:
        return b"\x00" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()

    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": address, "te": "trailers"}
    fields |= {"content-type": "application/grpc", "grpc-timeout": timeout, "x-mq-client-id": "late"}
    head = b"".join(field(*each) for each in fields.items())
    message = b"\x00" + struct.pack(">I", len(body)) + body
    with socket.create_connection((host, int(port)), CALL_TIMEOUT_S) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
        connection.sendall(frame(1, 4, 1, head) + frame(0, 1, 1, message))
        found: list[tuple[int, bytes]] = []
        with connection.makefile("rb") as stream:
            while True:
                start = stream.read(9)
                length, number = int.from_bytes(start[:3], "big"), int.from_bytes(start[5:9], "big")
                found.append((start[3], stream.read(length)))
                is_end = start[3] == 3 or (start[3] == 1 and start[4] & 1)  # RST_STREAM, or the trailers
                if number == 1 and is_end:
                    return found


def test_a_deadline_in_the_past_ends_its_call_at_once(broker: TestBroker) -> None:
    async def work(client: RawClient, server: ProxyServer) -> None:
        request = client.receiving(QUIET, "grpc-late").SerializeToString()
        async with another_is_served(client.address):
            for timeout in ("0n", "1n"):
                frames = await asyncio.to_thread(
                    raw_call, client.address, f"/{SERVICE}/ReceiveMessage", timeout, request
                )
                answers = [m.ReceiveMessageResponse.FromString(data[5:]) for kind, data in frames if kind == 0]
                assert {each.status.code for each in answers if each.HasField("status")} <= {
                    Code.BAD_REQUEST,
                    Code.INTERNAL_SERVER_ERROR,  # it has sent no settings
                }
                assert not any(each.HasField("message") for each in answers)

            async def is_free() -> bool:
                return server.service.waits.count == 0

            await until(is_free)
        code, _ = await client.received(QUIET, "grpc-late", 1.0)
        assert code == Code.BAD_REQUEST, "a deadline too near has a status"

    with_client(broker, work)


def test_a_receive_that_never_reads_gives_back_what_it_did_not_take(broker: TestBroker) -> None:
    create_topic(broker, "GrpcBadReader", queue_count=1)

    async def work(client: RawClient, proxy: ProxyServer) -> None:
        for number in range(8):
            await client.send("GrpcBadReader", bytes([number]) * (2 * MIB))
        await client.introduce("grpc-bad-reader")
        call = client.receive_call(client.receiving("GrpcBadReader", "grpc-bad-reader", batch_size=8))
        async with another_is_served(client.address):
            assert (await call.read()).status.code == Code.OK
        call.cancel()
        await proxy.service.receiving.drain()
        await advance(broker, 20)
        again: set[int] = set()
        while len(again) < 8:
            found = await client.receive("GrpcBadReader", "grpc-bad-reader")
            assert found, f"only {again} came again"
            again |= {each.body[0] for each in found}

    with_client(broker, work)


def producer_settings(topic_count: int = 1) -> Any:
    settings = m.Settings(client_type=ClientType.PRODUCER)
    settings.publishing.topics.extend([m.Resource(name=f"{'t' * 90}{number:06}") for number in range(topic_count)])
    return settings


def test_a_telemetry_stream_that_never_reads_gets_no_more_than_its_limit(broker: TestBroker) -> None:
    sent_count, settings = 4 * UNREAD_COMMANDS_MAX, producer_settings(1000)

    async def work(client: RawClient, proxy: ProxyServer) -> None:
        stream = client.telemetry()
        async with another_is_served(client.address):
            for _ in range(sent_count):
                await stream.write(m.TelemetryCommand(settings=settings))
            heartbeat = m.HeartbeatRequest(client_type=ClientType.PRODUCER)
            assert (await client.call("Heartbeat", heartbeat)).status.code == Code.OK
        await stream.done_writing()
        answers = 0
        while await stream.read() != grpc.aio.EOF:
            answers += 1
        assert UNREAD_COMMANDS_MAX <= answers < sent_count

    with_client(broker, work)


def test_settings_that_contradict(broker: TestBroker) -> None:
    nothing = m.Settings(client_type=ClientType.PRODUCER)
    topic, group = producer_settings(), m.Settings(client_type=ClientType.SIMPLE_CONSUMER)
    topic.publishing.topics[0].name = "a b"
    group.subscription.group.name = "a b"
    large = producer_settings(12_000)
    while large.ByteSize() > SETTINGS_BYTES_MAX:
        del large.publishing.topics[-1]
    larger = m.Settings()
    larger.CopyFrom(large)
    larger.publishing.topics.add(name="t" * 120)
    unlike = m.Settings(client_type=ClientType.PRODUCER)
    unlike.subscription.group.name = "grpc-unlike"

    async def work(client: RawClient, server: ProxyServer) -> None:
        async with another_is_served(client.address):
            for settings in (nothing, topic, group, larger):
                stream = client.telemetry()
                await stream.write(m.TelemetryCommand(settings=settings))
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await stream.read()
                assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert len(server.service.sessions) == 0
            (await client.settle(large)).cancel()
            stream = client.telemetry()
            for settings, part in ((unlike, "subscription"), (producer_settings(), "publishing")):
                await stream.write(m.TelemetryCommand(settings=settings))
                answer = await stream.read()
                assert answer.settings.WhichOneof("pub_sub") == part, "the last settings count, whatever the type says"
            (session,) = server.service.sessions.all()
            assert not session.is_consumer
            stream.cancel()

    with_client(broker, work)

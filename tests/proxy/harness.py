"""A proxy on real sockets in front of a TestBroker, and a raw client of its protocol."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc

from pymq.client import Admin
from pymq.client.instance import ClientInstance, ClusterAccess
from pymq.clock import Clock
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.net.runtime import new_event_loop
from pymq.proxy.client_backend import ClientBackend
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.messages import SERVICE
from pymq.proxy.protocol.names import ClientType, Code, FilterType
from pymq.proxy.server import ProxyServer
from pymq.proxy.service import ProxyService
from pymq.security.gatekeeper import Gatekeeper
from pymq.testing.broker import TestBroker

HOST = "127.0.0.1"
BROKER = "broker-a"
CALL_TIMEOUT_S = 10.0
_OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]  # else the library shares one among clients of an address


class RawClient:
    """Makes calls with the generated classes alone."""

    _numbers = itertools.count()

    def __init__(self, address: str, client_id: str = "client", **metadata: str) -> None:
        self.address = address
        self.channel = grpc.aio.insecure_channel(address, _OWN_CONNECTION)
        self.metadata = [("x-mq-client-id", client_id), ("x-mq-language", "PYTHON")] if client_id else []
        self.metadata += list(metadata.items())
        self._stream: Any = None  # of Telemetry: a client that receives has sent settings

    async def close(self) -> None:
        await self.channel.close()

    async def call(self, name: str, request: Any) -> Any:
        method = self.channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=getattr(m, f"{name}Response").FromString,
        )
        return await method(request, metadata=self.metadata, timeout=CALL_TIMEOUT_S)

    async def send(self, topic: str, body: bytes = b"body", **system: Any) -> Any:
        """Send one message, and return the answer."""
        return await self.call("SendMessage", m.SendMessageRequest(messages=[self.message(topic, body, **system)]))

    def message(self, topic: str, body: bytes = b"body", **system: Any) -> Any:
        """Return a message with an id of its own."""
        message = m.Message(body=body)
        message.topic.name = topic
        message.system_properties.message_id = f"id-{next(self._numbers)}"
        for name, value in system.items():
            if name == "keys":
                message.system_properties.keys.extend(value)
            elif name in ("delivery_timestamp", "orphaned_transaction_recovery_duration"):
                getattr(message.system_properties, name).CopyFrom(value)
            else:
                setattr(message.system_properties, name, value)
        return message

    def receiving(self, topic: str, group: str, **fields: Any) -> Any:
        """Return a request to receive."""
        request = m.ReceiveMessageRequest(batch_size=32)
        request.group.name = group
        request.message_queue.topic.name = topic
        request.message_queue.broker.name = BROKER
        request.filter_expression.type = FilterType.TAG
        request.filter_expression.expression = "*"
        request.invisible_duration.seconds = 10
        for name, value in fields.items():
            if name in ("invisible_duration", "long_polling_timeout", "filter_expression"):
                getattr(request, name).CopyFrom(value)
            else:
                setattr(request, name, value)
        return request

    def receive_call(self, request: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        return self._stream_call("ReceiveMessage", request, timeout_s)

    def pull_call(self, request: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        return self._stream_call("PullMessage", request, timeout_s)

    def _stream_call(self, name: str, request: Any, timeout_s: float) -> Any:
        method = self.channel.unary_stream(
            f"/{SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=getattr(m, f"{name}Response").FromString,
        )
        return method(request, metadata=self.metadata, timeout=timeout_s)

    async def receive(self, topic: str, group: str, timeout_s: float = CALL_TIMEOUT_S, **fields: Any) -> list[Any]:
        """Return the messages of one receive."""
        code, found = await self.received(topic, group, timeout_s, **fields)
        assert code in (20000, 40401), code
        return found

    async def received(self, topic: str, group: str, timeout_s: float, **fields: Any) -> tuple[int, list[Any]]:
        """Return the code and the messages of one receive; checks the order of its frames."""
        await self.introduce(group)
        frames = [each async for each in self.receive_call(self.receiving(topic, group, **fields), timeout_s)]
        kinds = [each.WhichOneof("content") for each in frames]
        assert kinds[0] == "status" and kinds[-1] == "delivery_timestamp", kinds
        assert set(kinds[1:-1]) <= {"message"}
        return frames[0].status.code, [each.message for each in frames[1:-1]]

    async def ack(self, group: str, message: Any) -> int:
        """Acknowledge a message, and return the code."""
        entry = m.AckMessageEntry(
            message_id=message.system_properties.message_id, receipt_handle=message.system_properties.receipt_handle
        )
        request = m.AckMessageRequest(group=m.Resource(name=group), topic=message.topic, entries=[entry])
        return int((await self.call("AckMessage", request)).status.code)

    async def change(self, group: str, message: Any, invisible_ms: int) -> Any:
        """Let a message come again after ``invisible_ms``, and return the answer."""
        request = m.ChangeInvisibleDurationRequest(group=m.Resource(name=group), topic=message.topic)
        request.receipt_handle = message.system_properties.receipt_handle
        request.invisible_duration.seconds = invisible_ms // 1000
        return await self.call("ChangeInvisibleDuration", request)

    async def introduce(self, group: str) -> None:
        """Send the settings of a simple consumer, if the client has sent none so far."""
        if self._stream is None and self.metadata:  # else it has no client id
            settings = m.Settings(client_type=ClientType.SIMPLE_CONSUMER)
            settings.subscription.group.name = group
            await self.settle(settings)

    async def settle(self, settings: Any) -> Any:
        """Open a Telemetry stream with these settings, and return it once they are answered."""
        stream = self.telemetry()
        await stream.write(m.TelemetryCommand(settings=settings))
        answer = await stream.read()
        assert answer.WhichOneof("command") == "settings"
        self._stream = stream
        return stream

    def telemetry(self) -> Any:
        """Return a new Telemetry stream, to ``write`` commands to and ``read`` them from."""
        return self.channel.stream_stream(
            f"/{SERVICE}/Telemetry",
            request_serializer=m.TelemetryCommand.SerializeToString,
            response_deserializer=m.TelemetryCommand.FromString,
        )(metadata=self.metadata)


@asynccontextmanager
async def proxy_of(
    broker: TestBroker, gatekeeper: Gatekeeper | None = None, clock: Clock | None = None
) -> AsyncIterator[tuple[ProxyServer, str]]:
    """Serve the broker's cluster; yield the server and its address. ``clock``: the broker's unless it is given."""
    instance = ClientInstance(ClusterAccess(broker.namesrv), clock=clock or broker.clock)
    backend = ClientBackend(instance)
    server = ProxyServer(ProxyService(backend, instance.clock), None, gatekeeper)
    instance.start()
    try:
        address = f"{HOST}:{await server.start(HOST, 0)}"
        try:
            yield server, address
        finally:
            await server.stop()
    finally:
        await backend.close()
        await instance.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine on the loop that servers use."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work)


def with_client(broker: TestBroker, work: Callable[[RawClient, ProxyServer], Awaitable[None]]) -> None:
    """Run ``work`` with a client of a proxy of its own."""

    async def main() -> None:
        async with proxy_of(broker) as (server, address):
            client = RawClient(address)
            try:
                await work(client, server)
            finally:
                await client.close()

    run(main())


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(CALL_TIMEOUT_S):
        while not await condition():  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0.005)


async def until_routed(client: RawClient, topic: str) -> None:
    """Wait until the name servers know a topic that the broker makes itself: it tells them later, not at once."""
    request = m.QueryRouteRequest(topic=m.Resource(name=topic))

    async def is_routed() -> bool:
        return bool((await client.call("QueryRoute", request)).status.code == Code.OK)

    await until(is_routed)


def create_topic(broker: TestBroker, name: str, kind: str = "NORMAL", queue_count: int = 2) -> None:
    """Create a topic that takes messages of one type."""
    config = TopicConfig(
        topic_name=name,
        read_queue_nums=queue_count,
        write_queue_nums=queue_count,
        attributes={"message.type": kind},
    )

    async def create() -> None:
        async with Admin(broker.namesrv) as admin:
            await admin.topics.put(broker.address, config)

    broker.create_topic(name, queue_count)
    asyncio.run(create())


def create_group(broker: TestBroker, name: str, **settings: Any) -> None:
    """Create a consumer group."""

    async def create() -> None:
        async with Admin(broker.namesrv) as admin:
            await admin.groups.put(broker.address, SubscriptionGroupConfig(group_name=name, **settings))

    asyncio.run(create())

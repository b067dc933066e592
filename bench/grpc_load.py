"""Load for a server of RocketMQ's gRPC protocol: bytes that are encoded once, over connections of the gRPC library."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc

from bench.control import BenchError
from bench.result import Rate
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.messages import SERVICE
from pymq.proxy.protocol.names import ClientType, Code, FilterType

IN_FLIGHT = 64
BODY_BYTES = 1024
BATCH = 32
INVISIBLE_S = 300
POLLING_S = 20
CALL_TIMEOUT_S = 30.0
DRAINED_AFTER_S = 5  # a receive that finds nothing for so long has found all


class GrpcLoad:
    """One client. Use it from one event loop."""

    def __init__(self, endpoint: str, client_id: str = "bench") -> None:
        self._channel = grpc.aio.insecure_channel(endpoint, [("grpc.use_local_subchannel_pool", 1)])
        self.metadata = (("x-mq-client-id", client_id), ("x-mq-language", "JAVA"), ("x-mq-client-version", "5.2.0"))
        self._send = self._unary("SendMessage")
        self._ack = self._unary("AckMessage")
        self._receive = self._channel.unary_stream(f"/{SERVICE}/ReceiveMessage")
        self._telemetry = self._channel.stream_stream(f"/{SERVICE}/Telemetry")

    async def close(self) -> None:
        await self._channel.close()

    async def send(self, topic: str, count: int) -> Rate:
        """Send messages with IN_FLIGHT of them on the way. Raises BenchError when one is refused."""
        requests = iter([_message(topic, number) for number in range(count)])

        async def worker() -> None:
            for request in requests:
                answer = await self._send(request, metadata=self.metadata, timeout=CALL_TIMEOUT_S)
                _expect(m.SendMessageResponse.FromString(answer).status)

        return await _timed(count, worker)

    async def receive_and_ack(self, topic: str, group: str, broker: str, count: int) -> Rate:
        """Receive so many messages and acknowledge each by a call of its own, with IN_FLIGHT calls on the way."""
        request = _receiving(topic, group, broker, DRAINED_AFTER_S)
        left = count
        acks = asyncio.Semaphore(IN_FLIGHT)

        async def ack(message: Any) -> None:
            nonlocal left
            async with acks:
                entry = m.AckMessageEntry(
                    message_id=message.system_properties.message_id,
                    receipt_handle=message.system_properties.receipt_handle,
                )
                asked = m.AckMessageRequest(group=m.Resource(name=group), topic=message.topic, entries=[entry])
                data = await self._ack(asked.SerializeToString(), metadata=self.metadata, timeout=CALL_TIMEOUT_S)
                _expect(m.AckMessageResponse.FromString(data).status)
                left -= 1

        async def worker() -> None:
            while left > 0:
                frames = [
                    m.ReceiveMessageResponse.FromString(data)
                    async for data in self._receive(request, metadata=self.metadata, timeout=CALL_TIMEOUT_S)
                ]
                found = [each.message for each in frames if each.HasField("message")]
                if not found:
                    if left > 0 and frames[0].status.code != Code.MESSAGE_NOT_FOUND:
                        _expect(frames[0].status)
                    return
                await asyncio.gather(*map(ack, found))

        return await _timed(count, worker, workers=IN_FLIGHT // BATCH * 2)

    async def settle(self, topic: str, group: str) -> Any:
        """Open the Telemetry stream of a push consumer, and return it once its settings are answered."""
        stream = self._telemetry(metadata=self.metadata)
        settings = m.Settings(client_type=ClientType.PUSH_CONSUMER)
        settings.request_timeout.seconds = 3
        settings.subscription.group.name = group
        entry = settings.subscription.subscriptions.add()
        entry.topic.name = topic
        entry.expression.type = FilterType.TAG
        entry.expression.expression = "*"
        await stream.write(m.TelemetryCommand(settings=settings).SerializeToString())
        await stream.read()
        return stream

    async def parked(self, topic: str, group: str, broker: str) -> float:
        """Receive for POLLING_S from a topic without messages; return the seconds until the answer."""
        begun_s = time.monotonic()
        request = _receiving(topic, group, broker, POLLING_S)
        async for data in self._receive(request, metadata=self.metadata, timeout=POLLING_S + CALL_TIMEOUT_S):
            answer = m.ReceiveMessageResponse.FromString(data)
            if answer.HasField("status") and answer.status.code != Code.MESSAGE_NOT_FOUND:
                _expect(answer.status)
        return time.monotonic() - begun_s

    def _unary(self, name: str) -> Any:
        return self._channel.unary_unary(f"/{SERVICE}/{name}")


async def _timed(count: int, worker: Any, workers: int = IN_FLIGHT) -> Rate:
    begun_s = time.perf_counter()
    await asyncio.gather(*[worker() for _ in range(workers)])
    return Rate(count, time.perf_counter() - begun_s)


def _expect(status: Any) -> None:
    if status.code != Code.OK:
        raise BenchError(f"the server answered {status.code}: {status.message}")


def _message(topic: str, number: int) -> bytes:
    message = m.Message(body=bytes(BODY_BYTES))
    message.topic.name = topic
    system = message.system_properties
    system.message_id = f"0100163E0C2F5D{number:020X}"
    system.message_type = 1
    system.body_encoding = 1
    system.born_timestamp.CopyFrom(m.Timestamp(seconds=int(time.time())))
    system.born_host = "bench"
    return bytes(m.SendMessageRequest(messages=[message]).SerializeToString())


def _receiving(topic: str, group: str, broker: str, polling_s: int) -> bytes:
    request = m.ReceiveMessageRequest(batch_size=BATCH)
    request.group.name = group
    request.message_queue.topic.name = topic
    request.message_queue.broker.name = broker
    request.filter_expression.type = FilterType.TAG
    request.filter_expression.expression = "*"
    request.invisible_duration.seconds = INVISIBLE_S
    request.long_polling_timeout.seconds = polling_s
    return bytes(request.SerializeToString())

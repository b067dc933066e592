"""Messages that one broker handed out to pops, for the broker that goes on with its directory.

What was acknowledged stays away. What was not comes again after its invisible time, once. Ordered queues stay closed
until then.
"""

from __future__ import annotations

import asyncio
import time

from pymq.client import Admin, Message, Producer, SimpleConsumer
from pymq.model import pop
from pymq.model.record import decode_records
from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode
from tests.interop.support import probe
from tests.interop.support.apache import ApacheServer
from tests.interop.support.pymq_server import PymqServer

TOPIC, ORDERED, GROUP = "popped", "popped-in-order", "poppers"
INVISIBLE_MS = 10_000
COME_AGAIN_S = 60
Server = ApacheServer | PymqServer


class Left:
    """What the first broker leaves: when its invisible times end (Unix s), and a receipt of the ordered queue."""

    def __init__(self) -> None:
        self.end_s = 0.0
        self.receipt = ""


def _pop_in_order(server: Server) -> probe.Reply:
    fields = {
        "consumerGroup": GROUP, "topic": ORDERED, "queueId": "0", "maxMsgNums": "8", "invisibleTime": str(INVISIBLE_MS),
        "pollTime": "0", "bornTime": "0", "initMode": "0", "order": "true",
    }  # fmt: skip
    return probe.call(server.broker, RequestCode.POP_MESSAGE, fields)


def _ack_in_order(server: Server, receipt: str, offset: int) -> int:
    fields = {
        "consumerGroup": GROUP, "topic": ORDERED, "queueId": "0", "extraInfo": f"{receipt} {offset}",
        "offset": str(offset),
    }  # fmt: skip
    return probe.call(server.broker, RequestCode.ACK_MESSAGE, fields).code


def _bodies(reply: probe.Reply) -> list[bytes]:
    return [message.body for message in decode_records(reply.body)]


async def begin(server: Server, left: Left) -> None:
    """Acknowledge some messages, forget others; leave one that was never handed out."""
    async with Admin(server.namesrv) as admin:
        for topic in (TOPIC, ORDERED):
            await admin.topics.put(server.broker, TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1))
    async with Producer(GROUP, namesrv=server.namesrv) as producer:
        for number in range(6):
            for topic in (TOPIC, ORDERED):
                await producer.send(Message(topic, b"%d" % number), timeout_s=30)
    async with SimpleConsumer(GROUP, namesrv=server.namesrv) as consumer:
        found = await consumer.receive(TOPIC, 4, invisible_ms=INVISIBLE_MS)
        assert [each.message.body for each in found] == [b"0", b"1", b"2", b"3"]
        await consumer.ack(found[1])
        await consumer.extend(found[2], INVISIBLE_MS)
        (alone,) = await consumer.receive(TOPIC, 1, invisible_ms=INVISIBLE_MS)
        await consumer.ack(alone)
    reply = _pop_in_order(server)
    assert _bodies(reply) == [b"%d" % number for number in range(6)]
    start = reply.ext["startOffsetInfo"].split(" ")[2]
    times = f"{reply.ext['popTime']} {reply.ext['invisibleTime']}"
    left.receipt = f"{start} {times} {pop.ORDERLY_REVIVE_QUEUE} 0 {server.broker_name} 0"
    assert _ack_in_order(server, left.receipt, 0) == _ack_in_order(server, left.receipt, 2) == 0
    left.end_s = time.time() + INVISIBLE_MS / 1000


async def end(server: Server, left: Left) -> None:
    """Get everything that was not acknowledged, and nothing else."""
    if time.time() < left.end_s - 1:
        assert not _bodies(_pop_in_order(server))
        assert _ack_in_order(server, left.receipt, 1) == 0
        expected = [b"3", b"4", b"5"]
    else:  # the machine is slow
        expected = [b"1", b"2", b"3", b"4", b"5"]
    found: dict[bytes, int] = {}
    counted: list[bytes] = []
    deadline = time.monotonic() + COME_AGAIN_S
    async with SimpleConsumer(GROUP, namesrv=server.namesrv) as consumer:
        while len(found) < 4:
            assert time.monotonic() < deadline, found
            for each in await consumer.receive(TOPIC, wait_ms=1000):
                counted.append(each.message.body)
                found[each.message.body] = each.message.reconsume_times
                await consumer.ack(each)
        again = await consumer.receive(TOPIC, wait_ms=3000)
    assert found == {b"5": 0, b"0": 1, b"2": 1, b"3": 1}
    assert len(counted) == 4 and not again
    while not (bodies := _bodies(reply := _pop_in_order(server))):
        assert time.monotonic() < deadline, "the ordered queue stays closed"
        await asyncio.sleep(0.2)
    assert bodies == expected
    assert f"qo0%{expected[0].decode()} 1" in reply.ext["orderCountInfo"]

"""The Java client 5.3.3 reads what PyMQ's producer sends in batches and by key, with the ids that the sender got."""

from __future__ import annotations

import asyncio
import threading
import uuid
from pathlib import Path

from pymq.client import Message, Producer, SendResult
from tests.interop.conftest import Broker
from tests.interop.support import probe
from tests.interop.support.running import RunningJava

COUNT = 300
DEADLINE_S = 60.0


def test_java_reads_batches(server: Broker, tmp_path: Path) -> None:
    topic = f"batches-{uuid.uuid4().hex[:8]}"
    probe.create_topic(server.namesrv, server.broker, topic)
    lines: list[list[str]] = []
    enough = threading.Event()

    def on_line(line: str) -> None:
        lines.append(line.rstrip("\n").split("\t"))
        if len(lines) >= COUNT:
            enough.set()

    bodies = [f"{n} Köln" if n % 40 else f"large {n} " * 1000 for n in range(COUNT)]

    async def send() -> list[SendResult]:
        async with Producer("batches", namesrv=server.namesrv, linger_ms=10, batch_count_max=50) as producer:
            futures = [
                await producer.enqueue(
                    Message(topic, body, tags="T", keys=[f"k{n}", "all"], flag=n),
                    ordering_key=f"key-{n % 7}" if n % 2 else None,
                    timeout_s=DEADLINE_S,
                )
                for n, body in enumerate(bodies)
            ]
            await producer.flush()
            return [future.result() for future in futures]

    sent = asyncio.run(send())
    reader = RunningJava("reader", [server.namesrv, topic, "T"], tmp_path / "java", on_line)
    try:
        assert enough.wait(DEADLINE_S), f"Java read {len(lines)} of {COUNT} messages"
    finally:
        reader.end(DEADLINE_S)
    wanted = {
        (
            one.message_id,
            str(one.queue.queue_id),
            str(one.queue_offset),
            str(n),
            "T",
            f"k{n} all",
            f"key-{n % 7}" if n % 2 else "null",
            bodies[n],
        )
        for n, one in enumerate(sent)
    }
    assert set(map(tuple, lines)) == wanted
    assert len(lines) == COUNT
    for key in {f"key-{n}" for n in range(7)}:
        mine = [line for line in lines if line[6] == key]
        assert len({line[1] for line in mine}) == 1
        numbers = [int(line[3]) for line in mine]
        assert numbers == sorted(numbers)

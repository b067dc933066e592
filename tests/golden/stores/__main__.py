"""Makes store-waiting again with Apache RocketMQ 5.3.3: ``python -m tests.golden.stores``. Needs java and Maven.

It holds open transactions and timers that wait; tests/broker/test_apache_waiting.py goes on with it.
"""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import zstandard

from pymq.client import Admin, Message, Producer, PushConsumer
from pymq.model.tables import TopicConfig
from tests.client.scenarios import Inbox, until
from tests.interop.support import transfers
from tests.interop.support.apache import CHECKS_SOON, ApacheServer

HERE = Path(__file__).parent
NAME = "store-waiting"
TOPIC = "timed"
SETTINGS = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "6000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
    "mappedFileSizeTimerLog": "524288",
    "timerFlushIntervalMs": "1000",
    **CHECKS_SOON,
}
SECOND_MS, HOUR_MS = 1000, 3_600_000
DELAYS_MS = [3 * SECOND_MS, 300 * SECOND_MS, HOUR_MS, 60 * HOUR_MS]  # delivered; waiting; waiting; to be rolled over
RECALLED = 2  # this one of each delay that waits
COMMENT = (
    "Apache RocketMQ 5.3.3, stopped cleanly at endMs. Transactions of the topic transfers "
    "(tests/interop/support/transfers.py): yes is committed, no is rolled back, the checked ones were asked about "
    "before, young yes never. timers: when each of the topic timed is due; recalled: taken back; delivered: before the "
    "stop."
)


async def _send_timers(server: ApacheServer) -> dict[str, Any]:
    """Send three timers of each delay, recall one, and wait for those of the first delay."""
    async with Admin(server.namesrv) as admin:
        await admin.topics.put(server.broker, TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1))
    timers: dict[str, int] = {}
    delivered, recalled = [], []
    async with Producer("timers", namesrv=server.namesrv) as producer:
        for delay_ms in DELAYS_MS:
            for number in range(3):
                name = f"{delay_ms} {number}"
                due_ms = time.time_ns() // 1_000_000 + delay_ms + 137 * number
                result = await producer.send(Message(TOPIC, name.encode(), "A", deliver_at_ms=due_ms), timeout_s=30)
                if delay_ms == DELAYS_MS[0]:
                    delivered.append(name)
                elif number == RECALLED:
                    await producer.recall(TOPIC, result.recall_handle or "")
                    recalled.append(name)
                else:
                    timers[name] = due_ms
    inbox = Inbox()
    consumer = PushConsumer("reader", namesrv=server.namesrv, on_message=inbox, consume_from="first")
    consumer.subscribe(TOPIC)
    async with consumer:
        await until(lambda: len(inbox.messages) >= len(delivered), "the first timers", 60)
    return {"timers": timers, "recalled": recalled, "delivered": delivered}


async def _leave(server: ApacheServer) -> dict[str, Any]:
    found = await _send_timers(server)
    copied = await transfers.begin(server, "apache")
    assert not copied, "the machine is too slow: try again"
    return found


def _pack(store: Path) -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for path in sorted([store, *store.rglob("*")]):
            if path.name != "lock" and not path.name.endswith(".bak"):
                archive.add(path, f"store/{path.relative_to(store)}" if path != store else "store", recursive=False)
    packed = zstandard.ZstdCompressor(level=19, write_content_size=True).compress(target.getvalue())
    (HERE / f"{NAME}.tar.zst").write_bytes(packed)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        server = ApacheServer(Path(directory), SETTINGS)
        try:
            manifest = asyncio.run(_leave(server))
            server.close_store()
        finally:
            server.stop()
        end_ms = time.time_ns() // 1_000_000
        config = {"brokerName": server.broker_name, "listenPort": int(server.broker.rpartition(":")[2]), **SETTINGS}
        facts = {"comment": COMMENT, "brokerConfig": config, "endMs": end_ms, **manifest}
        _pack(server.store)
        (HERE / f"{NAME}.manifest.json").write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()

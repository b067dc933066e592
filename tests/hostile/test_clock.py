"""A clock that jumps ten years ahead: store times don't stay there, and no segment expires because of it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from pymq.client import Message, MessageQueue, Producer, PullConsumer
from pymq.testing.standalone import StandaloneProcess
from tests.hostile.harness import eventually
from tests.hostile.moved_clock import MovedClock

TEN_YEARS_S = 10 * 365 * 86_400
HOUR_S = 3600
FIRST_MINUTE_S = 61  # a broker deletes nothing before
SETTINGS = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "fileReservedTime": "1",
    "deleteWhen": ";".join(str(hour) for hour in range(24)),
    "cleanResourceInterval": "100",
    "diskMaxUsedSpaceRatio": "0",
}
QUEUE = MessageQueue("T", "broker-a", 0)


async def send(namesrv: str, count: int) -> list[float]:
    """Send messages and return their store times relative to the machine's clock, in seconds."""
    async with Producer("P", namesrv=namesrv) as producer, PullConsumer("G", namesrv=namesrv) as consumer:
        first = None
        for _ in range(count):
            result = await producer.send(Message("T", b"x" * 1000), queue=QUEUE)
            first = result.queue_offset if first is None else first
        assert first is not None
        await consumer.queues("T")
        found: list[float] = []
        while len(found) < count:
            pulled = await consumer.pull(QUEUE, first + len(found))
            found += [message.store_timestamp_ms / 1000 - time.time() for message in pulled.messages()]
    return found


@pytest.mark.slow
def test_a_clock_ten_years_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = MovedClock(tmp_path / "clock", monkeypatch)
    log_directory = tmp_path / "data" / "commitlog"

    def segment_count() -> int:
        return sum(1 for path in log_directory.iterdir() if path.name.isdigit())

    with StandaloneProcess(tmp_path / "data", settings=SETTINGS) as broker:
        asyncio.run(send(broker.namesrv, 450))
        before = segment_count()
        assert before >= 7
        clock.let_pass(FIRST_MINUTE_S)
        clock.jump(TEN_YEARS_S)
        eventually(lambda: "jumped 3650 days ahead" in broker.stderr)
        assert all(abs(ago_s) < HOUR_S for ago_s in asyncio.run(send(broker.namesrv, 200)))
        assert segment_count() >= before
    with StandaloneProcess(tmp_path / "data", settings=SETTINGS) as broker:
        assert "no broker has run here for 36" in broker.stderr
        clock.let_pass(FIRST_MINUTE_S)
        assert all(abs(ago_s - TEN_YEARS_S) < HOUR_S for ago_s in asyncio.run(send(broker.namesrv, 200)))
        clock.jump(-TEN_YEARS_S)
        assert all(abs(ago_s) < HOUR_S for ago_s in asyncio.run(send(broker.namesrv, 50)))
        assert segment_count() >= before
        clock.let_pass(2 * HOUR_S)  # and now they are really old
        eventually(lambda: segment_count() == 1)

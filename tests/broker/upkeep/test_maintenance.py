"""Maintenance: old segments are scrubbed and compressed at the pace that was set, and a stop is clean at any time."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pymq.broker.upkeep.maintenance import (
    COLD_INTERVAL_MS,
    FIRST_PASS_DELAY_MS,
    HOUR_MS,
    MaintenanceTask,
    MaintenanceTasks,
    maintenance_tasks,
)
from pymq.clock import ManualClock
from pymq.model.tables import TopicConfig
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.lifecycle.cold_compressor import PIECE_BYTES
from pymq.wire.codes import RequestCode, ResponseCode
from tests.broker.disk import Threads
from tests.broker.world import ROOT, Caller, World

SEGMENT = 65_536
BODY = b"x" * 6000  # ten messages fill a segment


class Counted:
    """A task of ``left`` pieces of 1000 bytes."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.done = 0
        self.rate = 1000
        self.failure: OSError | None = None
        self.task = MaintenanceTask("counting", self.next_piece, self.finish, lambda: self.rate, lambda: 5000)

    def next_piece(self) -> Counted | None:
        return self if self.left else None

    size = 1000

    def run(self) -> None:
        self.left -= 1
        if self.failure is not None:
            raise self.failure

    def finish(self, piece: Counted) -> None:
        self.done += 1


class Lone:
    """A maintenance with one counted task, past its first delay."""

    def __init__(self, left: int) -> None:
        self.clock = ManualClock()
        self.threads = Threads()
        self.work = Counted(left)
        self.maintenance = MaintenanceTasks([self.work.task], self.clock, self.threads)

    def run(self, ms: int) -> int:
        """Tick ten times a second, and return the number of pieces done."""
        before = self.work.done
        for _ in range(ms // 100):
            self.clock.advance(100)
            self.maintenance.tick()
            while self.threads.waiting:
                self.threads.run_one()
        return self.work.done - before


def test_nothing_is_begun_in_the_first_minute() -> None:
    lone = Lone(100)
    assert lone.run(FIRST_PASS_DELAY_MS - 100) == 0
    assert lone.run(100) == 1


@pytest.mark.parametrize(("rate", "pieces"), [(0, 0), (500, 5), (1000, 10), (10_000, 100)])
def test_the_pace_is_the_operators(rate: int, pieces: int) -> None:
    lone = Lone(1000)
    lone.work.rate = rate
    lone.run(FIRST_PASS_DELAY_MS)
    lone.run(10_000)  # what the first second was allowed is used up
    assert abs(lone.run(10_000) - pieces) <= 1


def test_one_piece_at_a_time_without_catching_up_after_a_pause() -> None:
    lone = Lone(1000)
    lone.run(FIRST_PASS_DELAY_MS)
    lone.clock.advance(50_000)
    lone.maintenance.tick()
    lone.maintenance.tick()
    assert len(lone.threads.waiting) == 1
    lone.threads.run_one()
    assert len(lone.threads.waiting) == 0  # 1000 bytes a second: one piece, however long the pause was


def test_when_all_is_done_there_is_a_pause() -> None:
    lone = Lone(1)
    lone.run(FIRST_PASS_DELAY_MS + 2000)
    lone.work.left = 1
    assert lone.work.done == 1
    assert lone.run(3000) == 0
    assert lone.run(2500) == 1


def test_a_failure_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    lone = Lone(10)
    lone.work.failure = OSError(5, "Input/output error")
    lone.run(FIRST_PASS_DELAY_MS)
    assert "counting: [Errno 5]" in caplog.text
    lone.work.failure = None
    assert lone.run(COLD_INTERVAL_MS - 1000) == 0
    assert lone.run(2000) > 0


def test_after_a_stop_nothing_happens() -> None:
    lone = Lone(10)
    lone.run(FIRST_PASS_DELAY_MS - 100)
    lone.clock.advance(100)
    lone.maintenance.tick()
    lone.maintenance.stop()
    lone.threads.run_one()
    assert lone.work.done == 0
    assert lone.run(10_000) == 0


# -- a whole broker -------------------------------------------------------------------------------------------------


def kept(**settings: Any) -> tuple[World, Threads]:
    """Return a broker with several full segments, and the threads of its maintenance."""
    clock = ManualClock()
    files = MemoryFiles(now_ms=clock.now_ms)
    world = World(files, clock, mappedFileSizeCommitLog=SEGMENT, mappedFileSizeConsumeQueue=2000, **settings)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    threads = Threads()
    parts = world.parts
    parts.upkeep.maintenance = MaintenanceTasks(
        maintenance_tasks(parts.store, parts.config, world.clock), world.clock, threads
    )
    for i in range(31):
        world.put("T", BODY, KEYS=f"k{i}")
    parts.store.tick()
    parts.store.checkpoint()
    return world, threads


def let_run(world: World, threads: Threads, ms: int) -> None:
    for _ in range(ms // 1000):
        world.clock.advance(1000)
        world.parts.store.tick()
        world.parts.store.checkpoint()
        world.parts.upkeep.maintenance.tick()
        while threads.waiting:
            threads.run_one()


def runtime(world: World) -> dict[str, str]:
    return Caller(world).json(RequestCode.GET_BROKER_RUNTIME_INFO)["table"]


def test_scrubbing_is_on_and_shows_what_it_found(caplog: pytest.LogCaptureFixture) -> None:
    world, threads = kept()
    let_run(world, threads, 70_000)
    table = runtime(world)
    assert (table["scrubPasses"], table["scrubbedBytes"], table["scrubDamagedPlaces"]) == ("1", str(3 * SEGMENT), "0")
    assert table["coldSegments"] == "0"
    world.files.nodes[f"{ROOT}/commitlog/{0:020d}"].data[5000] ^= 1
    let_run(world, threads, 20_000)
    assert runtime(world)["scrubDamagedPlaces"] == "0"
    world.clock.advance(168 * HOUR_MS)
    let_run(world, threads, 20_000)
    table = runtime(world)
    assert (table["scrubPasses"], table["scrubDamagedPlaces"]) == ("2", "1")
    assert "scrubbing found the log damaged, first at offset 5000" in table["storeProblems"]
    assert "from offset 5000 to 5001" in caplog.text


def test_scrubbing_can_be_turned_off() -> None:
    world, threads = kept(scrubBytesPerSecond=0)
    let_run(world, threads, 90_000)
    assert runtime(world)["scrubbedBytes"] == "0"


def test_old_segments_are_compressed_when_asked_for_and_served(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world, threads = kept(coldSegmentHours=2, coldBytesPerSecond=PIECE_BYTES)
    let_run(world, threads, 90_000)
    assert runtime(world)["coldSegments"] == "0"
    world.clock.advance(2 * HOUR_MS)
    let_run(world, threads, 90_000)
    assert runtime(world)["coldSegments"] == "3"
    assert "was compressed from 65536 to" in caplog.text
    assert world.files.listdir(f"{ROOT}/commitlog") == [f"{3 * SEGMENT:020d}"]
    assert [message.body for message in world.messages("T")] == [BODY] * 31
    again = world.reopened(mappedFileSizeCommitLog=SEGMENT, mappedFileSizeConsumeQueue=2000)
    assert [message.body for message in again.messages("T")] == [BODY] * 31


def test_a_stop_amid_compressing_is_clean() -> None:
    world, threads = kept(coldSegmentHours=1, coldBytesPerSecond=PIECE_BYTES)
    world.clock.advance(2 * HOUR_MS)
    world.parts.upkeep.maintenance.tick()
    assert threads.waiting
    world.parts.upkeep.maintenance.stop()
    threads.run_one()
    world.parts.close()
    assert world.files.listdir(f"{ROOT}/coldlog") == []
    assert not world.files.exists(f"{ROOT}/abort")


def test_a_corrupt_message_is_refused_counted_and_skipped() -> None:
    world, _ = kept()
    result = world.parts.store.get("T", 0, 3, 1, 1 << 20)
    assert result.count == 1
    offset = world.parts.store._queues.make("T", 0).unit(3)[0]
    world.files.nodes[f"{ROOT}/commitlog/{0:020d}"].data[offset + 50] ^= 4
    caller = Caller(world)
    fields: dict[str, Any] = {
        "consumerGroup": "g", "topic": "T", "queueId": 0, "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0,
        "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, "expressionType": "TAG",
    }  # fmt: skip
    code, remark = caller.refused(RequestCode.PULL_MESSAGE, queueOffset=3, **fields)
    assert code == ResponseCode.SYSTEM_ERROR
    assert f"offset 3 is corrupt at {offset} in the commit log: go on at offset 4" in remark
    assert caller.header(RequestCode.PULL_MESSAGE, queueOffset=0, **fields)["nextBeginOffset"] == "3"
    assert int(caller.header(RequestCode.PULL_MESSAGE, queueOffset=4, **fields)["nextBeginOffset"]) > 4
    assert runtime(world)["corruptMessages"] == "1"

"""TurnWatch: long work is counted under its name and logged with its time; short work is not, however much of it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from pymq.clock import ManualClock
from pymq.net.turn_watch import CPU_SAMPLE_MS, HEARTBEAT_MS, LONG_TURN_MS, OTHER, TurnWatch


class Machine:
    """A watch whose time and CPU time a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.cpu_s = 5.0
        self.watch = TurnWatch(ManualClock(), now_s=lambda: self.now_s, cpu_s=lambda: self.cpu_s)
        self.watch.skip()

    def work(self, what: str, took_ms: float, cpu_ms: float) -> None:
        begun_s = self.watch.begin()
        self.pass_ms(took_ms, cpu_ms)
        self.watch.end(begun_s, what, lambda: "for 127.0.0.1:7")

    def pass_ms(self, took_ms: float, cpu_ms: float = 0.0) -> None:
        self.now_s += took_ms / 1000
        self.cpu_s += cpu_ms / 1000


def test_work_of_the_limit_is_not_long_and_work_beyond_it_is(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.work("PULL_MESSAGE", LONG_TURN_MS - 0.01, 50)
    assert not machine.watch.long_turns and not caplog.records
    machine.pass_ms(CPU_SAMPLE_MS * 2)
    machine.work("PULL_MESSAGE", LONG_TURN_MS + 1, 60)
    assert machine.watch.long_turns == {"PULL_MESSAGE": 1}
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "101 ms (60 ms of CPU time), the limit is 100 ms: PULL_MESSAGE for 127.0.0.1:7" in record.getMessage()


def test_the_longest_time_and_the_longest_cpu_time_may_be_of_different_work() -> None:
    machine = Machine()
    machine.work("slow disk", 900, 5)
    machine.pass_ms(CPU_SAMPLE_MS * 2)
    machine.work("walk", 80, 80)
    machine.pass_ms(CPU_SAMPLE_MS * 2)
    machine.work("short", 20, 20)
    assert machine.watch.longest_s == pytest.approx(0.9)
    assert machine.watch.longest_cpu_s == pytest.approx(0.08)


def test_cpu_time_is_read_seldom_and_its_error_is_the_age_of_the_reading() -> None:
    machine = Machine()
    machine.work("first", 1, 1)
    machine.pass_ms(CPU_SAMPLE_MS - 2, CPU_SAMPLE_MS - 2)
    machine.work("second", 150, 30)
    assert machine.watch.longest_cpu_s == pytest.approx((30 + CPU_SAMPLE_MS - 1) / 1000)


def test_repeated_long_work_is_counted_each_time_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    for _ in range(50):
        machine.work("job: statistics", 300, 300)
    assert machine.watch.long_turns == {"job: statistics": 50}
    assert len(caplog.records) == 1


def test_a_late_heartbeat_shows_work_that_nothing_measured() -> None:
    machine = Machine()
    machine.pass_ms(HEARTBEAT_MS + LONG_TURN_MS - 1, 10)
    machine.watch.beat()
    assert not machine.watch.long_turns
    machine.pass_ms(HEARTBEAT_MS + LONG_TURN_MS + 1, 150)
    machine.watch.beat()
    assert machine.watch.long_turns == {OTHER: 1}


def test_measured_work_does_not_count_again_because_it_delayed_the_heartbeat() -> None:
    machine = Machine()
    machine.work("PULL_MESSAGE", 5000, 5000)
    machine.pass_ms(HEARTBEAT_MS)
    machine.watch.beat()
    assert machine.watch.long_turns == {"PULL_MESSAGE": 1}


def test_a_skipped_time_is_nothing_to_report() -> None:
    machine = Machine()
    machine.pass_ms(60_000, 60_000)
    machine.watch.skip()
    machine.pass_ms(HEARTBEAT_MS)
    machine.watch.beat()
    assert not machine.watch.long_turns and machine.watch.longest_s == 0


def test_the_running_loop_is_watched_from_start_to_stop() -> None:
    async def scenario() -> int:
        machine = Machine()
        machine.watch.start()
        machine.watch.start()
        machine.pass_ms(1000)
        while not machine.watch.long_turns:  # noqa: ASYNC110 - the heartbeat sets no event
            await asyncio.sleep(0.005)
        machine.watch.stop()
        machine.watch.stop()
        return machine.watch.long_turns[OTHER]

    assert asyncio.run(asyncio.wait_for(scenario(), 10)) == 1


def test_the_next_heartbeat_is_never_now() -> None:
    """32.3 s is 32.299999 s as a float, so that its next multiple would be itself, forever on simulated time."""

    class Loop(asyncio.SelectorEventLoop):
        at_s = 0.0
        next_s = 0.0

        def time(self) -> float:
            return self.at_s

        def call_at(self, when: float, *arguments: Any, **fields: Any) -> asyncio.TimerHandle:  # type: ignore[override]
            self.next_s = when
            return super().call_at(when, *arguments, **fields)

    loop = Loop()
    watch = TurnWatch(ManualClock())

    async def beats() -> None:
        for tenths in range(1, 2000):
            loop.at_s = tenths / 10
            watch._schedule()
            assert 0.09 < loop.next_s - loop.at_s < 0.11, loop.at_s

    try:
        loop.run_until_complete(beats())
    finally:
        loop.close()

"""TurnWatch: long work is counted under its name and logged with its time; short work is not, however much of it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from pymq.clock import ManualClock
from pymq.net.turn_watch import BUSY_LINE_MS, CPU_SAMPLE_MS, HEARTBEAT_MS, LONG_TURN_MS, OTHER, TurnWatch
from pymq.wire.command import Command, encode_command


class Machine:
    """A watch whose time and CPU time a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.cpu_s = 5.0
        self.clock = ManualClock()
        self.watch = TurnWatch(self.clock, now_s=lambda: self.now_s, cpu_s=lambda: self.cpu_s)
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
    machine.work("PULL_MESSAGE", 200, LONG_TURN_MS - 0.01)
    assert not machine.watch.long_turns and not caplog.records
    machine.pass_ms(CPU_SAMPLE_MS * 2)
    machine.work("PULL_MESSAGE", LONG_TURN_MS + 5, LONG_TURN_MS + 1)
    assert machine.watch.long_turns == {"PULL_MESSAGE": 1}
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "105 ms (101 ms of CPU time), the limit is 100 ms: PULL_MESSAGE for 127.0.0.1:7" in record.getMessage()


def test_a_busy_machine_is_named_once_a_minute_and_not_right_after_the_start(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.work("PULL_MESSAGE", 106, 1)
    machine.clock.advance(BUSY_LINE_MS - 1)
    machine.work("job: statistics", 906, 1)
    assert (machine.watch.delayed_count, dict(machine.watch.long_turns), caplog.records) == (2, {}, [])
    machine.clock.advance(1)
    machine.work("PULL_MESSAGE", 300, 1)
    (record,) = caplog.records
    assert record.getMessage().startswith("the machine is busy: 3 times since the last such line the event loop waited")
    assert "at most 906 ms (1 ms of CPU time), in job: statistics" in record.getMessage()
    machine.clock.advance(BUSY_LINE_MS - 1)
    machine.work("PULL_MESSAGE", 300, 1)
    assert len(caplog.records) == 1
    machine.clock.advance(1)
    machine.work("PULL_MESSAGE", 200, 1)
    assert "busy: 2 times" in caplog.messages[-1] and "at most 300 ms" in caplog.messages[-1]


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
        machine.pass_ms(1000, 1000)
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
        for number in range(1, 2000):
            loop.at_s = number * HEARTBEAT_MS / 1000 - 1e-6
            watch._schedule()
            assert HEARTBEAT_MS - 1 < (loop.next_s - loop.at_s) * 1000 < HEARTBEAT_MS + 1, loop.at_s

    try:
        loop.run_until_complete(beats())
    finally:
        loop.close()


def test_a_read_of_several_requests_names_their_kinds(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    begun_s = machine.watch.begin()
    machine.pass_ms(200, 150)
    frames = [encode_command(Command(code, opaque=code))[4:] for code in (10, 11, 10)]
    machine.watch.note_frames(begun_s, [*frames, b"?"], "10.0.0.9:7")
    assert machine.watch.long_turns == {"several requests": 1}
    assert "several requests (4 frames: SEND_MESSAGE, PULL_MESSAGE) from 10.0.0.9:7" in caplog.text

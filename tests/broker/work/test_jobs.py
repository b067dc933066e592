"""JobRunner: every job runs again and again, a failing one too, and none after the stop."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from pymq.broker.work.jobs import WAKE_UP_MS, Job, JobRunner
from pymq.clock import SystemClock
from pymq.net.runtime import new_event_loop
from pymq.net.turn_watch import TurnWatch

DEADLINE_S = 10


def test_jobs_repeat_and_each_run_is_followed_up() -> None:
    events: list[str] = []

    async def scenario() -> None:
        enough = asyncio.Event()

        def note(name: str) -> None:
            events.append(name)
            if Counter(events)["a"] >= 3 and Counter(events)["b"] >= 3:
                enough.set()

        jobs = [Job("a", 1, lambda: note("a")), Job("b", 2, lambda: note("b"))]
        runner = JobRunner(jobs, lambda: events.append("after"), TurnWatch(SystemClock()))
        runner.start()
        await asyncio.wait_for(enough.wait(), DEADLINE_S)
        runner.stop()
        assert runner.failure_count == 0

    asyncio.run(scenario())
    assert events[1::2] == ["after"] * (len(events) // 2)


@pytest.mark.parametrize("where", ["job", "after"])
def test_a_failing_job_is_logged_and_tried_again(where: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        runs = 0
        third = asyncio.Event()

        def work() -> None:
            nonlocal runs
            runs += 1
            if runs == 3:
                third.set()
            if where == "job":
                raise ValueError("on purpose")

        def after() -> None:
            if where == "after":
                raise ValueError("on purpose")

        runner = JobRunner([Job("fragile", 1, work)], after, TurnWatch(SystemClock()))
        runner.start()
        await asyncio.wait_for(third.wait(), DEADLINE_S)
        runner.stop()
        assert runner.failure_count >= 2

    asyncio.run(scenario())
    assert "the job fragile failed; it is tried again in 1 ms" in caplog.text and "on purpose" in caplog.text


def test_a_stop_is_the_end_also_from_inside_a_job() -> None:
    async def scenario() -> None:
        runs = Counter[str]()
        stopped = asyncio.Event()

        def stop() -> None:
            runs["stop"] += 1
            runner.stop()
            stopped.set()

        later = [Job("other", 1, lambda: runs.update(["other"])), Job("stop", 1, stop)]
        runner = JobRunner(later, lambda: None, TurnWatch(SystemClock()))
        runner.start()
        await asyncio.wait_for(stopped.wait(), DEADLINE_S)
        before = dict(runs)
        # Whatever was scheduled for the next millisecond would run before this later timer does.
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(0.02, passed.set)
        await asyncio.wait_for(passed.wait(), DEADLINE_S)
        assert dict(runs) == before and runs["stop"] == 1
        runner.stop()

    asyncio.run(scenario())


def test_a_stopped_runner_can_start_again() -> None:
    async def scenario() -> None:
        ran = asyncio.Event()
        runner = JobRunner([Job("a", 1, ran.set)], lambda: None, TurnWatch(SystemClock()))
        runner.start()
        runner.stop()
        runner.start()
        await asyncio.wait_for(ran.wait(), DEADLINE_S)
        runner.stop()

    asyncio.run(scenario())


def test_a_job_can_be_hastened_but_not_held_up() -> None:
    async def scenario() -> None:
        runs = asyncio.Queue[str]()
        jobs = [Job("rare", 1_000_000, lambda: runs.put_nowait("rare")), Job("often", 1, lambda: None)]
        runner = JobRunner(jobs, lambda: None, TurnWatch(SystemClock()))
        runner.start()
        for delay_ms in (1_000, 0, 2_000_000):
            runner.hasten("rare", delay_ms)
        assert await asyncio.wait_for(runs.get(), DEADLINE_S) == "rare"
        runner.hasten("rare", 1)
        assert await asyncio.wait_for(runs.get(), DEADLINE_S) == "rare"
        runner.stop()
        runner.hasten("rare", 0)
        assert runs.empty()

    asyncio.run(scenario())


def test_hastening_a_job_of_another_role_does_nothing() -> None:
    async def scenario() -> int:
        runner = JobRunner([], lambda: None, TurnWatch(SystemClock()))
        runner.start()
        runner.hasten("link to the master", 0)
        return runner.failure_count

    assert asyncio.run(scenario()) == 0


def test_a_job_that_hastens_itself_has_one_timer() -> None:
    async def scenario() -> int:
        runs = 0
        third = asyncio.Event()

        def work() -> None:
            nonlocal runs
            runs += 1
            if runs < 3:
                runner.hasten("eager", 0)
            else:
                third.set()

        runner = JobRunner([Job("eager", 1_000_000, work)], lambda: None, TurnWatch(SystemClock()))
        runner.start()
        runner.hasten("eager", 0)
        await asyncio.wait_for(third.wait(), DEADLINE_S)
        for _ in range(5):
            await asyncio.sleep(0)
        return runs

    assert asyncio.run(scenario()) == 3


class TimerLoop(asyncio.SelectorEventLoop):
    """Says which times its timers were set to, in ms, and has a clock that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000.0
        self.times_ms: list[float] = []

    def time(self) -> float:
        return self.now_ms / 1000

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        self.times_ms.append(round(when * 1000, 6))
        return super().call_at(when, callback, *args, context=context)


@pytest.mark.parametrize(
    ("started_ms", "period_ms", "due_ms"),
    [
        (0, WAKE_UP_MS - 1, WAKE_UP_MS - 1),  # too often for a common time
        (7.3, WAKE_UP_MS - 1, 7.3 + WAKE_UP_MS - 1),
        (0, WAKE_UP_MS, WAKE_UP_MS),
        (7.3, WAKE_UP_MS, WAKE_UP_MS),
        (WAKE_UP_MS / 2 + 1, WAKE_UP_MS, 2 * WAKE_UP_MS),
        (7.3, 100, 100),
        (41.9, 100, 100),
        (51.0, 100, 200),
        (7.3, 1000, 1000),
    ],
)
def test_jobs_share_one_timer_at_whole_multiples(started_ms: float, period_ms: int, due_ms: float) -> None:
    loop = TimerLoop()
    loop.now_ms += started_ms

    async def start() -> None:
        jobs = [Job("a", period_ms, lambda: None), Job("b", period_ms, lambda: None)]
        JobRunner(jobs, lambda: None, TurnWatch(SystemClock())).start()

    loop.run_until_complete(start())
    loop.close()
    assert loop.times_ms == [pytest.approx(1_000_000 + due_ms)]


def test_jobs_run_less_often_while_nothing_comes_unless_hastened() -> None:
    loop, activity = TimerLoop(), 0

    async def scenario() -> None:
        nonlocal activity
        jobs = [Job("quick", WAKE_UP_MS, lambda: None), Job("own pace", WAKE_UP_MS - 1, lambda: None)]
        runner = JobRunner(jobs, lambda: None, TurnWatch(SystemClock()), lambda: activity)
        steady = JobRunner(jobs, lambda: None, TurnWatch(SystemClock()))
        for each in (runner, steady):
            each.start()
        for at_ms, comes, next_ms in (
            (100, True, 200),
            (200, True, 300),
            (300, False, 500),
            (500, False, 750),
            (750, False, 1000),
            (1000, True, 1100),
        ):
            loop.now_ms, activity = 1_000_000 + at_ms, activity + comes
            for each in (runner, steady):
                each._run_due()
            assert runner._due_s["quick"] == pytest.approx(1000 + next_ms / 1000), at_ms
            assert runner._due_s["own pace"] == pytest.approx(1000 + (at_ms + WAKE_UP_MS - 1) / 1000)
            assert 0.4 <= ((steady._due_s["quick"] - 1000) * 1000 - at_ms) / WAKE_UP_MS <= 1.6
        runner.hasten("quick", 5)
        assert runner._due_s["quick"] == pytest.approx(1000 + 1.005)
        for each in (runner, steady):
            each.stop()

    loop.run_until_complete(scenario())
    loop.close()


def test_a_job_that_is_overdue_can_be_hastened_in_the_servers_loop() -> None:
    async def scenario() -> None:
        ran = asyncio.Event()
        runner = JobRunner([Job("a", 3_600_000, ran.set)], lambda: None, TurnWatch(SystemClock()))
        runner.start()
        for delay_ms in (-5, 0, 5):
            runner.hasten("a", delay_ms)
        await asyncio.wait_for(ran.wait(), DEADLINE_S)
        runner.stop()

    with asyncio.Runner(loop_factory=new_event_loop) as loop:
        loop.run(scenario())


def test_all_jobs_run_at_once_and_keep_one_timer() -> None:
    async def scenario() -> None:
        runs: list[str] = []
        jobs = [Job("a", 3_600_000, lambda: runs.append("a")), Job("b", 3_600_000, lambda: runs.append("b"))]
        runner = JobRunner(jobs, lambda: runs.append("after"), TurnWatch(SystemClock()))
        runner.run_all()
        assert runs == []  # not started
        runner.start()
        before = dict(runner._due_s)
        runner.run_all()
        assert runs == ["a", "after", "b", "after"]
        assert runner._due_s.keys() == before.keys() and runner._timer is not None
        runner.stop()

    asyncio.run(scenario())

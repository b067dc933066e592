"""Ticker: runs again and again, with the period of the moment, until it is stopped."""

from __future__ import annotations

import asyncio

from pymq.net.ticker import Ticker

DEADLINE_S = 30


def test_the_work_runs_again_with_the_period_of_the_moment() -> None:
    periods: list[int] = []
    done = asyncio.Event()

    def period_ms() -> int:
        periods.append(len(periods))
        return len(periods)

    def work() -> None:
        if len(periods) == 4:
            done.set()

    async def scenario() -> None:
        ticker = Ticker(period_ms, work)
        ticker.start()
        async with asyncio.timeout(DEADLINE_S):
            await done.wait()
        ticker.stop()

    asyncio.run(scenario())
    assert periods == [0, 1, 2, 3]  # asked at the start and before each later wait


def test_a_stopped_ticker_runs_no_more_also_when_its_work_stops_it() -> None:
    runs: list[int] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        first, second = Ticker(lambda: 1, lambda: runs.append(1)), Ticker(lambda: 2, lambda: second.stop())
        first.start()
        first.stop()
        first.stop()
        second.start()
        later = loop.create_future()
        loop.call_later(0.02, later.set_result, None)
        await later
        assert not [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]

    asyncio.run(scenario())
    assert runs == []

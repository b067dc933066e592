"""What the proxy remembers of a cluster: one question for all who ask at the same time."""

from __future__ import annotations

import asyncio

import pytest

from pymq.clock import ManualClock
from pymq.errors import RequestTimeoutError
from pymq.proxy.recent_values import COUNT_MAX, MAX_AGE_MS, RecentValues

CALLERS = 2_000


class Cluster:
    """Answers once ``may_answer`` is set; with ``error`` it fails."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.error: Exception | None = None

    async def ask(self, name: str) -> str:
        self.asked.append(name)
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return f"{name}-{len(self.asked)}"


def test_callers_at_the_same_time_share_one_question() -> None:
    async def main() -> None:
        cluster = Cluster()
        values = RecentValues(cluster.ask, ManualClock())
        callers = [asyncio.ensure_future(values.get("topic")) for _ in range(CALLERS)]
        await asyncio.sleep(0)
        callers[0].cancel()  # the one that asked leaves
        cluster.may_answer.set()
        assert await asyncio.gather(*callers[1:]) == ["topic-1"] * (CALLERS - 1)
        assert cluster.asked == ["topic"]

    asyncio.run(main())


def test_an_error_reaches_all_callers_and_is_not_kept() -> None:
    async def main() -> None:
        cluster = Cluster()
        cluster.may_answer.set()
        cluster.error = RequestTimeoutError("late")
        values = RecentValues(cluster.ask, ManualClock())
        assert [
            type(each) for each in await asyncio.gather(values.get("a"), values.get("a"), return_exceptions=True)
        ] == [RequestTimeoutError] * 2
        cluster.error = None
        assert await values.get("a") == "a-2"

    asyncio.run(main())


@pytest.mark.parametrize(("age_ms", "asked_count"), [(MAX_AGE_MS - 1, 1), (MAX_AGE_MS, 2)])
def test_a_value_is_asked_for_again_at_its_age(age_ms: int, asked_count: int) -> None:
    async def main() -> None:
        cluster, clock = Cluster(), ManualClock()
        cluster.may_answer.set()
        values = RecentValues(cluster.ask, clock)
        await values.get("a")
        clock.advance(age_ms)
        await values.get("a")
        assert len(cluster.asked) == asked_count

    asyncio.run(main())


@pytest.mark.parametrize(("others", "asked_count"), [(COUNT_MAX - 1, 0), (COUNT_MAX, 1)])
def test_beyond_the_limit_values_are_forgotten(others: int, asked_count: int) -> None:
    async def main() -> None:
        cluster = Cluster()
        cluster.may_answer.set()
        values = RecentValues(cluster.ask, ManualClock())
        for number in range(others + 1):
            await values.get(str(number))
        del cluster.asked[:]
        await values.get("0")
        assert len(cluster.asked) == asked_count

    asyncio.run(main())

"""The same question, asked twice at once, goes out once."""

from __future__ import annotations

import asyncio

import pytest

from pymq.errors import UnreachableError
from pymq.operations.asking.single_flight import SingleFlight


class Cluster:
    """Counts questions; each is answered, or fails, when ``open`` is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.open = asyncio.Event()
        self.asked = self.cancelled = 0
        self._error = error

    async def ask(self) -> int:
        self.asked += 1
        number = self.asked
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self._error is not None:
            raise self._error
        return number


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_callers_at_once_share_an_answer_and_later_ones_ask_again() -> None:
    async def run() -> None:
        cluster, flight = Cluster(), SingleFlight[int]()
        first, second = (asyncio.ensure_future(flight.ask("info", cluster.ask)) for _ in range(2))
        await turns()
        cluster.open.set()
        assert [await first, await second] == [1, 1]
        assert await flight.ask("info", cluster.ask) == 2

    asyncio.run(run())


def test_other_questions_go_out_by_themselves() -> None:
    async def run() -> None:
        cluster, flight = Cluster(), SingleFlight[int]()
        cluster.open.set()
        assert sorted(await asyncio.gather(*(flight.ask(key, cluster.ask) for key in ("a", "b", "a")))) == [1, 1, 2]

    asyncio.run(run())


def test_an_error_reaches_all_and_is_not_kept() -> None:
    async def run() -> None:
        cluster, flight = Cluster(UnreachableError("away")), SingleFlight[int]()
        callers = [asyncio.ensure_future(flight.ask("info", cluster.ask)) for _ in range(2)]
        await turns()
        cluster.open.set()
        answers = await asyncio.gather(*callers, return_exceptions=True)
        assert [str(answer) for answer in answers] == ["away", "away"]
        with pytest.raises(UnreachableError):
            await flight.ask("info", cluster.ask)
        assert cluster.asked == 2

    asyncio.run(run())


def test_a_cancelled_caller_leaves_the_question_to_the_others() -> None:
    async def run() -> None:
        cluster, flight = Cluster(), SingleFlight[int]()
        first, second = (asyncio.ensure_future(flight.ask("info", cluster.ask)) for _ in range(2))
        await turns()
        first.cancel()
        await turns()
        assert first.cancelled() and not cluster.cancelled
        cluster.open.set()
        assert await second == 1

    asyncio.run(run())


def test_the_question_ends_with_its_last_caller() -> None:
    async def run() -> None:
        cluster, flight = Cluster(), SingleFlight[int]()
        callers = [asyncio.ensure_future(flight.ask("info", cluster.ask)) for _ in range(2)]
        await turns()
        for caller in callers:
            caller.cancel()
        await asyncio.wait(callers)
        assert cluster.cancelled == 1
        cluster.open.set()
        assert await flight.ask("info", cluster.ask) == 2, "a new question, not the cancelled one"

    asyncio.run(run())

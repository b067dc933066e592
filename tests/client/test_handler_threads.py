"""The threads that plain handlers run in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pymq.client import handler_threads
from pymq.client.handler_threads import HandlerThreads


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(main())


def test_results_and_exceptions_come_back_in_pairs() -> None:
    async def scenario() -> None:
        def divide(number: int) -> float:
            return 6 / number

        threads = HandlerThreads(divide, 2, "t")
        (half, nothing), (no_result, error) = await asyncio.gather(threads.call(2), threads.call(0))
        assert (half, nothing, no_result) == (3.0, None, None)
        assert isinstance(error, ZeroDivisionError)
        threads.close()

    run(scenario)


def test_calls_that_block_run_side_by_side_up_to_the_limit() -> None:
    async def scenario() -> None:
        together = threading.Barrier(3)  # breaks unless three calls run at once
        names: set[str] = set()

        def meet(number: int) -> int:
            names.add(threading.current_thread().name + str(threading.get_ident()))
            return together.wait(50)

        threads = HandlerThreads(meet, 3, "meeting")
        outcomes = await asyncio.gather(*[threads.call(number) for number in range(30)])
        assert [error for _, error in outcomes] == [None] * 30
        assert len(names) == 3
        threads.close()

    run(scenario)


def test_short_calls_stay_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_threads, "HELP_AFTER_S", 1000.0)  # however slow the machine is, no call "blocks"

    async def scenario() -> None:
        seen: list[int] = []

        def note(number: int) -> None:
            seen.append(threading.get_ident())

        threads = HandlerThreads(note, 20, "t")
        for _ in range(50):
            await threads.call(1)
        assert len(seen) == 50 and len(set(seen)) == 1
        threads.close()

    run(scenario)


def test_a_call_that_hangs_holds_up_neither_other_calls_nor_the_end_of_the_process() -> None:
    async def scenario() -> None:
        gate = threading.Event()
        hung: list[threading.Thread] = []

        def work(number: int) -> int:
            if number == 0:
                hung.append(threading.current_thread())
                gate.wait()
            return number

        threads = HandlerThreads(work, 2, "t")
        first = threads.call(0)
        assert [await threads.call(number) for number in range(1, 5)] == [(n, None) for n in range(1, 5)]
        assert hung[0].daemon and not first.done()
        gate.set()
        assert await first == (0, None)
        threads.close()

    run(scenario)


def test_closing_ends_the_threads_and_drops_what_waits() -> None:
    async def scenario() -> None:
        gate, started = threading.Event(), threading.Event()
        done: list[int] = []
        ids: list[threading.Thread] = []

        def work(number: int) -> Any:
            ids.append(threading.current_thread())
            started.set()
            gate.wait(50)
            done.append(number)

        threads = HandlerThreads(work, 1, "t")
        calls = [threads.call(number) for number in range(3)]
        await asyncio.to_thread(started.wait, 50)
        threads.close()
        gate.set()
        await calls[0]
        await asyncio.to_thread(ids[0].join, 50)
        assert done == [0] and not ids[0].is_alive()

    run(scenario)


def test_a_cancelled_caller_leaves_the_threads_as_they_were() -> None:
    async def scenario() -> None:
        gate = threading.Event()

        def wait(number: int) -> bool:
            return gate.wait(50)

        threads = HandlerThreads(wait, 1, "t")
        call = threads.call(1)
        call.cancel()
        gate.set()
        assert await threads.call(2) == (True, None)
        threads.close()

    run(scenario)


def test_threads_that_never_ran_are_closed() -> None:
    HandlerThreads(print, 1, "t").close()

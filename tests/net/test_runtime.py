"""Stop signals: noticed while the loop is blocked, awaited, and restored after the first one. Modules of a server."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Awaitable, Callable

import pytest

from pymq.errors import StoppedError
from pymq.net import runtime
from pymq.net.runtime import StopSignals, run

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])


def with_signals(scenario: Callable[[StopSignals], Awaitable[None]]) -> None:
    async def main() -> None:
        with StopSignals() as signals:
            async with asyncio.timeout(20):
                await scenario(signals)

    run(main())


@BOTH
def test_a_signal_is_known_before_the_loop_runs_again(number: signal.Signals) -> None:
    async def scenario(signals: StopSignals) -> None:
        assert not signals.came
        os.kill(os.getpid(), number)
        assert signals.came
        assert await signals.wait() == number

    with_signals(scenario)


@BOTH
def test_a_signal_wakes_a_waiting_loop(number: signal.Signals) -> None:
    async def scenario(signals: StopSignals) -> None:
        waiting = asyncio.ensure_future(signals.wait())
        await asyncio.to_thread(os.kill, os.getpid(), number)
        assert await waiting == number

    with_signals(scenario)


def test_a_signal_cancels_the_work_and_waits_for_its_end() -> None:
    ended = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async def scenario(signals: StopSignals) -> None:
        with pytest.raises(StoppedError):
            await signals.unless_stopped(work())
        assert ended == [True]

    with_signals(scenario)


def test_the_result_or_error_of_finished_work_is_kept() -> None:
    async def done() -> int:
        return 3

    async def failing() -> int:
        raise ValueError("no")

    async def scenario(signals: StopSignals) -> None:
        assert await signals.unless_stopped(done()) == 3
        with pytest.raises(ValueError, match="no"):
            await signals.unless_stopped(failing())

    with_signals(scenario)


def test_handlers_are_restored_after_the_first_signal_and_at_the_end() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def scenario(signals: StopSignals) -> None:
        assert signal.getsignal(signal.SIGTERM) != before
        os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) == before
        await signals.wait()

    async def nothing(_: StopSignals) -> None:
        assert signal.getsignal(signal.SIGTERM) != before

    with_signals(scenario)
    with_signals(nothing)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_server_loads_its_modules_without_searches_for_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(runtime, "import_module", lambda name: seen.append(gc.isenabled()))
    frozen_count = gc.get_freeze_count()
    runtime.load("one", "another")
    assert seen == [False, False] and gc.isenabled()
    assert gc.get_freeze_count() > frozen_count

"""The loop of a simulated process: which loop is the running one, what threads see, where errors go."""

from __future__ import annotations

import asyncio
import random

from tests.simulation.loop import SimLoop, own_running_loop, start
from tests.simulation.network import SimNetwork
from tests.simulation.timeline import Process, Timeline


class World:
    def __init__(self) -> None:
        self.timeline = Timeline()
        self.network = SimNetwork(self.timeline, random.Random(1))
        self.errors: list[str] = []

    def loop(self, name: str) -> SimLoop:
        process = Process(self.timeline, name, "10.0.0.1")
        return SimLoop(self.timeline, process, self.network, random.Random(2), self._failed)  # type: ignore[abstract]

    def _failed(self, what: str, error: BaseException | None) -> None:
        self.errors.append(f"{what}: {error}")


def test_a_call_runs_on_its_own_loop_and_the_callers_loop_returns() -> None:
    world = World()
    outer, inner = world.loop("outer"), world.loop("inner")
    seen: list[object] = []

    def see() -> None:
        seen.append(asyncio.get_running_loop())

    def both() -> None:
        see()
        inner.enter(see)
        see()

    with own_running_loop():
        outer.enter(both)
        inner.call_soon(see)
        outer.call_soon(see)
        world.timeline.run_until(1)
    assert seen == [outer, inner, outer, inner, outer]
    assert asyncio._get_running_loop() is None


def test_a_worker_thread_has_no_loop() -> None:
    world = World()
    loop, seen = world.loop("a"), list[object]()

    async def main() -> None:
        seen.append(await loop.run_in_executor(None, asyncio._get_running_loop))
        seen.append(asyncio.get_running_loop())

    with own_running_loop():
        start(loop, main())
        world.timeline.run_until(1_000_000)
    assert seen == [None, loop]


def test_an_error_in_a_call_is_kept_and_ends_nothing() -> None:
    world = World()
    loop, seen = world.loop("a"), list[int]()
    with own_running_loop():
        loop.call_soon(lambda: 1 // 0)
        loop.call_soon(seen.append, 1)
        world.timeline.run_until(1)
    assert seen == [1]
    (error,) = world.errors
    assert "division" in error

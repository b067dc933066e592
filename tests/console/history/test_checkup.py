"""The shared findings: made when someone looks, and no more often than each minute."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pymq.clock import ManualClock
from pymq.console.history import checkup as module
from pymq.console.history.checkup import KEPT_MS, Checkup, Findings
from pymq.errors import UnreachableError
from pymq.operations.doctor.finding import Check, problem, warning
from pymq.operations.doctor.state import ClusterState

CHECKS = [
    Check("disk", "Is there room?", lambda state: [warning("broker-a", "its disk is 91 % full", "clean up")]),
    Check("masters", "Is there a master?", lambda state: [problem("broker-b", "has no master", "start it")]),
    Check("broken", "?", lambda state: [problem("x", str(1 // 0), "")]),
]


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.begun = 0
        self.error: Exception | None = None
        self.free = asyncio.Event()
        self.free.set()
        self.checkup = Checkup(self._examine, CHECKS, self.clock)

    async def _examine(self) -> ClusterState:
        self.begun += 1
        await self.free.wait()
        if self.error is not None:
            raise self.error
        return ClusterState(self.clock.now_ms())


def run(work: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World()
        await work(world)
        await world.checkup.close()

    asyncio.run(main())


async def turn() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def looked(world: World) -> Findings | None:
    """Return the findings after the examination that a look begins."""
    world.checkup.newest()
    await turn()
    return world.checkup.newest()


def test_the_first_one_who_looks_does_not_wait_and_all_get_the_same() -> None:
    async def work(world: World) -> None:
        assert world.checkup.newest() is None and world.checkup.newest() is None
        await turn()
        first = world.checkup.newest()
        assert first is world.checkup.newest() and first is not None and world.begun == 1
        assert [check for check, _ in first.found] == ["masters", "disk", "broken"], "the worst first"
        assert "ZeroDivisionError" in first.found[2][1].text, "a check that broke is a finding"

    run(work)


def test_findings_are_kept_for_a_minute_and_then_shown_until_there_are_new_ones() -> None:
    async def work(world: World) -> None:
        first = await looked(world)
        world.clock.advance(KEPT_MS - 1)
        assert world.checkup.newest() is first and world.begun == 1
        world.clock.advance(1)
        world.free.clear()
        assert world.checkup.newest() is first
        assert world.checkup.newest() is first
        world.free.set()
        second = await looked(world)
        assert second is not None and second is not first and world.begun == 2

    run(work)


@pytest.mark.parametrize(
    ("error", "text"),
    [(UnreachableError("no name server answers"), "no name server answers"), (ValueError("a bug"), "ValueError")],
)
def test_a_failure_is_said_and_the_last_findings_stay(error: Exception, text: str) -> None:
    async def work(world: World) -> None:
        first = await looked(world)
        world.clock.advance(KEPT_MS)
        world.error = error
        await looked(world)
        assert world.checkup.findings is first and text in world.checkup.problem
        world.error = None
        await looked(world)
        assert not world.checkup.problem and world.begun == 3

    run(work)


def test_checks_have_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.01)

    async def work(world: World) -> None:
        world.free.clear()
        assert world.checkup.newest() is None
        assert world.checkup._task is not None
        await world.checkup._task
        assert "did not end within 0.01 s" in world.checkup.problem

    run(work)


def test_one_that_never_ran_is_closed_too() -> None:
    async def work(world: World) -> None:
        await world.checkup.close()
        assert not world.begun

    run(work)

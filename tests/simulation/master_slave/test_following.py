"""Spans in which a slave follows a master, seen from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.simulation.master_slave.cluster import LOOK_US, MasterSlave
from tests.simulation.master_slave.following import Span
from tests.simulation.master_slave.stories import Stage
from tests.simulation.master_slave.story_plans import usual_plan
from tests.simulation.network import Link
from tests.simulation.simulating import simulate
from tests.simulation.timeline import MS, SECOND

LONG_US = 30 * SECOND
Trouble = Callable[[Stage], Awaitable[None]]


def spans_around(trouble: Trouble) -> tuple[list[Span], int]:
    """Return the spans of a slave that follows before and after ``trouble``, and the time of the trouble."""
    found: list[Span] = []
    happened_us = 0

    async def run(cluster: MasterSlave) -> None:
        nonlocal happened_us
        stage = Stage(cluster)
        await stage.until(stage.follows, "a slave that follows")
        await stage.wait(LONG_US)
        happened_us = cluster.timeline.now_us
        await trouble(stage)
        await stage.until(stage.follows, "a slave that follows again", 2 * LONG_US)
        await stage.wait(LONG_US)
        found.extend(cluster.followings.of(stage.slave))

    report = simulate(usual_plan(), story=run)
    assert not report.violations
    return found, happened_us


async def nothing(stage: Stage) -> None: ...


async def master_dies(stage: Stage) -> None:
    stage.kill(stage.master)
    await stage.wait(MS)
    stage.master.start()


async def slave_is_paused(stage: Stage) -> None:
    stage.slave.pause()
    await stage.wait(2 * LOOK_US)
    stage.slave.resume()


async def slaves_disk_is_full(stage: Stage) -> None:
    stage.slave.disk.fill(True)
    await stage.wait(2 * LOOK_US)
    stage.slave.disk.fill(False)
    stage.kill(stage.slave)  # its store takes nothing any more
    stage.slave.start()


async def link_is_slow(stage: Stage) -> None:
    stage.slow_down(Link(MS, 0, 0.0))
    await stage.wait(2 * LOOK_US)
    stage.cluster.network.links.clear()


async def link_is_cut(stage: Stage) -> None:
    cuts = {(stage.master.host, stage.slave.host)}
    stage.cluster.network.cuts |= cuts
    await stage.wait(2 * LOOK_US)
    stage.cluster.network.heal(cuts)


async def questions_are_lost(stage: Stage) -> None:
    stage.silence("10911")


@pytest.mark.slow
def test_a_slave_that_is_left_alone_has_one_span() -> None:
    (span,), happened_us = spans_around(nothing)
    assert span.start_us <= happened_us - LONG_US + LOOK_US
    assert span.end_us >= happened_us + LONG_US - LOOK_US
    assert span.epoch == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "trouble", [master_dies, slave_is_paused, slaves_disk_is_full, link_is_slow, link_is_cut, questions_are_lost]
)
def test_any_trouble_ends_a_span(trouble: Trouble) -> None:
    (before, *_, after), happened_us = spans_around(trouble)
    assert happened_us - LOOK_US <= before.end_us <= happened_us + LOOK_US
    assert after.start_us >= happened_us
    assert after.end_us - after.start_us >= LONG_US // 2

"""Each role has its periodic work, and all of it can run."""

from __future__ import annotations

import pytest

from tests.broker.world import World

OF_A_MASTER = {"delayed delivery", "slaves", "write fence"}
OF_A_SLAVE = {"link to the master", "tables of the master"}


@pytest.mark.parametrize(("broker_id", "own", "other"), [(0, OF_A_MASTER, OF_A_SLAVE), (1, OF_A_SLAVE, OF_A_MASTER)])
def test_each_role_has_its_work(broker_id: int, own: set[str], other: set[str]) -> None:
    world = World(brokerId=broker_id)
    jobs = world.parts.jobs()
    names = [job.name for job in jobs]
    assert len(set(names)) == len(names)
    assert own <= set(names) and not other & set(names)
    for job in jobs:
        assert job.period_ms > 0
        job.run()

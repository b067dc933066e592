"""A small slice of :mod:`tests.broker.raft.kills`: a leader of three real processes fails under load."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.broker.raft.kills import CLOCK, DISK, KILL, report, run
from tests.broker.raft.machines import Machines, NoMachinesError
from tests.broker.raft.processes import RaftProcesses, node_ids


@pytest.mark.slow
def test_another_node_takes_over_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """Without a C compiler a leader is killed; with one its clock jumps, and its disk fails, too."""
    try:
        machines: Machines | None = Machines(node_ids(3), tmp_path)
    except NoMachinesError:
        machines = None
    faults = (KILL,) if machines is None else (KILL, CLOCK, DISK)
    with RaftProcesses(tmp_path, machines=machines) as group:
        outcome = asyncio.run(run(group, faults, random.Random(1)))
    assert not outcome.lost and not outcome.doubled and outcome.are_logs_equal, report(outcome)
    assert len(outcome.gaps_s) == len(faults) and outcome.acknowledged_count

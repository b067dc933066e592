"""A small slice of :mod:`tests.broker.raft.kills`: one leader of three real processes is killed under load."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from tests.broker.raft.kills import report, run
from tests.broker.raft.processes import RaftProcesses


def test_another_node_takes_over_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    with RaftProcesses(tmp_path) as group:
        outcome = asyncio.run(run(group, 1, random.Random(1)))
    assert not outcome.lost and not outcome.doubled and outcome.are_logs_equal, report(outcome)
    assert outcome.acknowledged_count

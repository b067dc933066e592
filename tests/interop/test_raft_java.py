"""Java's client at a Raft group whose leaders are killed: nothing that was answered is lost (scripts/raft-kills)."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from pathlib import Path

from tests.broker.raft.kills import KILL, JavaLoad, report, run
from tests.broker.raft.processes import RaftProcesses
from tests.chaos.load import JAVA_PROGRAM
from tests.interop.support.running import compiled_program
from tests.interop.support.tools import require

FAULTS = (KILL, KILL)


def test_java_goes_on_when_another_node_leads(tmp_path: Path) -> None:
    require("java", "javac", "mvn")
    compiled_program(JAVA_PROGRAM)
    with RaftProcesses(tmp_path) as group:
        outcome = asyncio.run(run(group, FAULTS, random.Random(1), partial(JavaLoad, directory=tmp_path / "java")))
    print(report(outcome))
    assert not outcome.lost and not outcome.doubled and outcome.are_logs_equal, report(outcome)
    assert outcome.acknowledged_count

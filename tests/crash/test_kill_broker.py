"""Kills a real broker under load with ``kill -9``: every acknowledged message is there, in its place, once.

``scripts/kill`` does the same more often, also with load from the Java client.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.crash.kill_load import ACKNOWLEDGED_MIN
from tests.crash.kill_rounds import KillRounds

KILL_COUNT = int(os.environ.get("PYMQ_KILL_COUNT", "4"))
SEED = int(os.environ.get("PYMQ_KILL_SEED", "1789"))


@pytest.mark.slow
def test_no_acknowledged_message_is_lost(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    last = asyncio.run(KillRounds(tmp_path / "data", SEED, report=print).run(KILL_COUNT))
    assert last.kill_count == KILL_COUNT
    assert last.in_flight_count > 0, "every request was answered when the broker died: the kills tested nothing"
    assert last.acknowledged_count >= KILL_COUNT * ACKNOWLEDGED_MIN

"""SlaveCursors: how often a slave's table of offsets is saved. What commits do is in test_pending_offsets.py."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.replication.tables.slave_cursors import KEYS_SAVED_PER_MS, SAVE_INTERVAL_MS, SlaveCursors
from tests.broker.replication.pair import Pair

SMALL_COUNT = SAVE_INTERVAL_MS * KEYS_SAVED_PER_MS


@pytest.mark.parametrize(
    ("group_count", "interval_ms"),
    [
        (1, SAVE_INTERVAL_MS),
        (SMALL_COUNT, SAVE_INTERVAL_MS),
        (SMALL_COUNT + KEYS_SAVED_PER_MS, SAVE_INTERVAL_MS + 1),
        (4 * SMALL_COUNT, 4 * SAVE_INTERVAL_MS),
    ],
)
def test_large_tables_are_saved_less_often(group_count: int, interval_ms: int) -> None:
    pair = Pair()
    table: dict[str, Any] = {"offsetTable": {f"T@g{number}": {"0": 1} for number in range(group_count)}}
    cursors = pair.slave.parts.metadata.cursors
    assert isinstance(cursors, SlaveCursors)
    cursors.take_over(table, is_part=False)
    pair.clock.advance(interval_ms)
    cursors.tick()
    saved = pair.file(pair.slave, "consumerOffset")
    cursors.take_over({"offsetTable": {"T@g0": {"0": 2}}}, is_part=True)
    pair.clock.advance(interval_ms - 1)
    cursors.tick()
    assert pair.file(pair.slave, "consumerOffset") == saved
    pair.clock.advance(1)
    cursors.tick()
    assert pair.file(pair.slave, "consumerOffset")["offsetTable"]["T@g0"] == {"0": 2}

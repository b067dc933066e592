"""Units for lost offsets: placeholder units where a blank unit would make RocketMQ miss messages, else blank units."""

from __future__ import annotations

import pytest

from pymq.model.layout import BLANK_UNIT_SIZE, PLACEHOLDER_CODE
from pymq.model.names import SCHEDULE_TOPIC
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.queue.placeholder_units import fill_lost
from tests.store.support import make_store

SEGMENT_BYTES = 4096


@pytest.mark.parametrize(
    ("topic", "physical_offset", "unit"),
    [
        ("T", 0, (0, 100, PLACEHOLDER_CODE)),
        ("%RETRY%g", SEGMENT_BYTES - 1, (SEGMENT_BYTES - 1, 100, PLACEHOLDER_CODE)),
        ("T", SEGMENT_BYTES, (0, BLANK_UNIT_SIZE, 0)),
        (SCHEDULE_TOPIC, 0, (0, BLANK_UNIT_SIZE, 0)),
    ],
)
def test_units_of_lost_offsets(topic: str, physical_offset: int, unit: tuple[int, int, int]) -> None:
    store = make_store(MemoryFiles())
    store.open()
    queue = store._queues.make(topic, 0)
    fill_lost(queue, 3, physical_offset, 100, SEGMENT_BYTES)
    assert [queue.unit(offset) for offset in range(4)] == [unit] * 3 + [(-1, 0, 0)]
    assert (queue.max_offset, queue.next_offset) == (3, 3)
    fill_lost(queue, 3, physical_offset, 100, SEGMENT_BYTES)
    assert queue.max_offset == 3

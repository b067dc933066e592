"""Units for queue offsets whose records are lost: blank records, or placeholder units where a blank record would trap RocketMQ.

A pull that meets a blank record in RocketMQ passes over every unit that leads into the log's first segment (Java:
DefaultMessageStore.getMessage, rollNextFile): messages there would never reach its consumers. So where the next record
lies in that segment, its unit stands for the lost ones too, with a tags code of its own, past which PyMQ reads.
"""

from __future__ import annotations

from pymq.model.layout import PLACEHOLDER_CODE, UNIT
from pymq.model.names import is_system_topic
from pymq.store.queue.consume_queue import ConsumeQueue


def traps(queue: ConsumeQueue, physical_offset: int, segment_size_bytes: int) -> bool:
    """True when a blank record beside the record at ``physical_offset`` would make RocketMQ miss messages.

    Queues that RocketMQ itself works through unit by unit must see nothing twice, and are not trapped.
    """
    return physical_offset < segment_size_bytes and not is_system_topic(queue.topic)


def fill_lost(queue: ConsumeQueue, end: int, physical_offset: int, size: int, segment_size_bytes: int) -> None:
    """Appends units for lost offsets up to ``end``; beside them, before or behind, lies the record described."""
    if end == queue.max_offset:
        return
    if traps(queue, physical_offset, segment_size_bytes):
        queue.append_units(UNIT.pack(physical_offset, size, PLACEHOLDER_CODE) * (end - queue.max_offset))
    else:
        queue.skip_to(end)

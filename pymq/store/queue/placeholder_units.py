"""Units for queue offsets whose records are lost: blank units, or placeholders where a blank unit would trap RocketMQ.

A pull in RocketMQ that meets a blank unit passes over every unit that points into the log's first segment (Java:
DefaultMessageStore.getMessage, rollNextFile): messages there would never reach its consumers. Where the next record
lies in that segment, placeholder units point at it instead. They have their own tags code, and PyMQ reads past them.
"""

from __future__ import annotations

from pymq.model.layout import BLANK_UNIT, BLANK_UNIT_SIZE, PLACEHOLDER_CODE, UNIT
from pymq.model.names import is_system_topic
from pymq.store.queue.batch_queue import AnyQueue, BatchQueue
from pymq.store.queue.consume_queue import ConsumeQueue


def traps(queue: AnyQueue, physical_offset: int, segment_size_bytes: int) -> bool:
    """True when a blank unit beside the record at ``physical_offset`` would make RocketMQ miss messages.

    RocketMQ reads its system queues unit by unit: they are not trapped, and must see nothing twice.
    """
    return physical_offset < segment_size_bytes and not is_system_topic(queue.topic)


def lost_unit(queue: ConsumeQueue, physical_offset: int, size: int, segment_size_bytes: int) -> bytes:
    """The unit for one lost offset beside the record at ``physical_offset``."""
    if traps(queue, physical_offset, segment_size_bytes) and size != BLANK_UNIT_SIZE:
        return UNIT.pack(physical_offset, size, PLACEHOLDER_CODE)
    return BLANK_UNIT


def fill_lost(queue: AnyQueue, end: int, physical_offset: int, size: int, segment_size_bytes: int) -> None:
    """Append units for lost offsets up to ``end``. ``physical_offset`` and ``size``: a record before or behind them.

    A batch queue needs none: its units say which offsets they have.
    """
    if end == queue.max_offset:
        return
    if isinstance(queue, BatchQueue):
        queue.skip_to(end)
    elif traps(queue, physical_offset, segment_size_bytes):
        queue.append_units(UNIT.pack(physical_offset, size, PLACEHOLDER_CODE) * (end - queue.max_offset))
    else:
        queue.skip_to(end)
